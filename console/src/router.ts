// The address behind `#` names the page and its parameters: `#/keys?db=0&key==user:7`.

import { signal } from '@preact/signals';

export interface Route {
  page: string;
  params: URLSearchParams;
}

function parsed(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return { page: path || 'overview', params: new URLSearchParams(query) };
}

export const route = signal<Route>(parsed());
addEventListener('hashchange', () => {
  route.value = parsed();
});

export function addressOf(page: string, params: Record<string, string> = {}): string {
  const query = new URLSearchParams(params).toString();
  return query ? `#/${page}?${query}` : `#/${page}`;
}

export function go(page: string, params: Record<string, string> = {}): void {
  location.hash = addressOf(page, params);
  // The event comes later; who asks in between is told the new one.
  route.value = parsed();
}

/** Changes the address without a step in the browser's history. */
export function replace(page: string, params: Record<string, string>): void {
  history.replaceState(null, '', addressOf(page, params));
  route.value = parsed();
}
