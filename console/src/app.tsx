// The frame around every page: navigation, who is logged in, the state of the connection.

import { useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { PAGES } from './pages';
import { addressOf, route } from './router';
import {
  logIn,
  loginDialog,
  logOut,
  mayWrite,
  mustLogIn,
  session,
  socket,
  type Theme,
  theme,
  unlock,
  unreachable,
} from './state';
import { Dialog, Questions } from './ui/dialog';
import { helpShown, KeyboardHelp, useShortcuts } from './ui/keyboard';
import { attempt, Toasts } from './ui/toast';

export function App() {
  useShortcuts();
  const menuOpen = useSignal(false);
  const main = useRef<HTMLElement>(null);
  const page = PAGES.find((one) => one.id === route.value.page) ?? PAGES[0];
  useEffect(() => {
    menuOpen.value = false;
    document.title = `${page?.title} · Pantala`;
    main.current?.focus({ preventScroll: true });
  }, [page?.id]);
  if (!session.value) return <Unreachable />;
  if (mustLogIn.value) {
    return (
      <main class="entrance">
        <LoginForm title="Pantala" />
        <Toasts />
      </main>
    );
  }
  const Draw = page?.draw;
  return (
    <div class="app">
      <TopBar menuOpen={menuOpen.value} onMenu={() => (menuOpen.value = !menuOpen.value)} />
      <Navigation chosen={page?.id ?? ''} open={menuOpen.value} />
      <main ref={main} tabIndex={-1} key={page?.id}>
        {Draw && <Draw />}
      </main>
      <Questions />
      <KeyboardHelp />
      {loginDialog.value && (
        <Dialog title="Log in" onClose={() => (loginDialog.value = undefined)}>
          <LoginForm />
        </Dialog>
      )}
      <Toasts />
    </div>
  );
}

function Unreachable() {
  return (
    <main class="entrance">
      <div class="login">
        <Mark />
        <p>
          {unreachable.value ? `The server does not answer: ${unreachable.value}` : 'Connecting…'}
        </p>
      </div>
    </main>
  );
}

/** A dragonfly seen from above. */
const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path d="M15 9C9 4 3 4 2 7s6 6 13 6zm2 0c6-5 12-5 13-2s-6 6-13 6zM15 14c-6 0-11 2-11 5s6 2 11-2zm2 0c6 0 11 2 11 5s-6 2-11-2z" />
    <path
      class="body"
      d="M16 4.500a2.200 2.200 0 0 1 2.200 2.200c0 1-.4 1.600-.8 2.100L17 29h-2L14.600 8.800c-.4-.5-.8-1.100-.8-2.100A2.200 2.200 0 0 1 16 4.500Z"
    />
  </svg>
);

function TopBar(props: { menuOpen: boolean; onMenu: () => void }) {
  const now = session.value;
  return (
    <header class="top">
      <button
        type="button"
        class="quiet menu"
        aria-label="Pages"
        aria-expanded={props.menuOpen}
        onClick={props.onMenu}
      >
        ☰
      </button>
      <a class="brand" href={addressOf('overview')}>
        <Mark />
        <strong>Pantala</strong>
        <span class="note">{now?.version}</span>
      </a>
      <span class="note host">
        {location.hostname}
        {now?.server?.port ? `:${now.server.port}` : ''}
      </span>
      <span class="space" />
      {socket.state.value !== 'open' && (
        <span class="pill bad" role="status">
          connecting…
        </span>
      )}
      <LockButton />
      <ThemeButton />
      <button
        type="button"
        class="quiet"
        aria-label="Keyboard"
        onClick={() => (helpShown.value = true)}
      >
        ?
      </button>
    </header>
  );
}

function LockButton() {
  const user = session.value?.user;
  if (mayWrite.value) {
    return (
      <span class="lock">
        <span class="pill write">{user ?? 'default'} · may write</span>
        <button type="button" onClick={() => void attempt(logOut)}>
          {session.value?.needsLogin ? 'Log out' : 'Lock'}
        </button>
      </span>
    );
  }
  return (
    <span class="lock">
      <span class="pill">read-only</span>
      <button type="button" class="primary" onClick={() => void unlock()}>
        Unlock
      </button>
    </span>
  );
}

const NEXT_THEME: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
const THEME_SIGNS: Record<Theme, string> = { system: '◐', light: '○', dark: '●' };

const ThemeButton = () => (
  <button
    type="button"
    class="quiet"
    aria-label={`Colours: ${theme.value}`}
    title={`Colours: ${theme.value}`}
    onClick={() => (theme.value = NEXT_THEME[theme.value])}
  >
    {THEME_SIGNS[theme.value]}
  </button>
);

function Navigation(props: { chosen: string; open: boolean }) {
  return (
    <nav class={props.open ? 'open' : ''} aria-label="Pages">
      {PAGES.map((page) => (
        <a
          key={page.id}
          href={addressOf(page.id)}
          aria-current={props.chosen === page.id ? 'page' : undefined}
        >
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d={page.icon} />
          </svg>
          <span>{page.title}</span>
          <kbd aria-hidden="true">g {page.letter}</kbd>
        </a>
      ))}
    </nav>
  );
}

function LoginForm(props: { title?: string }) {
  const [user, setUser] = useState(session.value?.user ?? 'default');
  const [password, setPassword] = useState('');
  const [reason, setReason] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      await logIn(user, password);
    } catch (error) {
      setReason((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <form
      class="login"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {props.title && (
        <h1>
          <Mark /> {props.title}
        </h1>
      )}
      <label>
        <span>User</span>
        <input
          autocomplete="username"
          value={user}
          onInput={(event) => setUser(event.currentTarget.value)}
        />
      </label>
      <label>
        <span>Password</span>
        <input
          type="password"
          autocomplete="current-password"
          autofocus
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
      {reason && (
        <p class="reason" role="alert">
          {reason}
        </p>
      )}
      <footer>
        <button type="submit" class="primary" disabled={busy}>
          Log in
        </button>
      </footer>
    </form>
  );
}
