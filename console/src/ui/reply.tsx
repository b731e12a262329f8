// A reply as redis-cli would print it, told apart by colour; long ones are cut and can be opened.

import { useState } from 'preact/hooks';
import { asText, errorOf, isBytes, type Reply } from '../api/reply';
import { typed } from '../api/words';

/** Elements of one level that are shown at first, and each time more. */
const STEP = 100;

export function ReplyView(props: { reply: Reply }) {
  const { reply } = props;
  if (reply === null) return <span class="reply nothing">(nil)</span>;
  if (typeof reply === 'string') return <span class="reply text">{quoted(reply)}</span>;
  if (typeof reply === 'number') return <span class="reply number">(integer) {reply}</span>;
  if (typeof reply === 'boolean') return <span class="reply number">({String(reply)})</span>;
  if (Array.isArray(reply)) return <Elements all={reply} kind="array" />;
  const error = errorOf(reply);
  if (error !== undefined) return <span class="reply error">(error) {error}</span>;
  if (isBytes(reply)) return <span class="reply text">{typed(reply)}</span>;
  if ('map' in reply) return <Pairs all={reply.map} />;
  if ('set' in reply) return <Elements all={reply.set} kind="set" />;
  if ('text' in reply) return <pre class="reply text">{reply.text}</pre>;
  if ('tooLarge' in reply) {
    return <span class="reply error">The reply has {reply.tooLarge} bytes: too much to show.</span>;
  }
  if ('integer' in reply) return <span class="reply number">(integer) {reply.integer}</span>;
  if ('double' in reply) return <span class="reply number">(double) {reply.double}</span>;
  return <span class="reply status">{asText(reply)}</span>;
}

/** Text of several lines is shown as it is. */
const quoted = (text: string) =>
  text.includes('\n') ? text : `"${text.replace(/["\\]/g, '\\$&')}"`;

function Elements(props: { all: Reply[]; kind: string }) {
  const [shown, setShown] = useState(STEP);
  const { all, kind } = props;
  if (all.length === 0) return <span class="reply nothing">(empty {kind})</span>;
  return (
    <ol class="reply-list">
      {all.slice(0, shown).map((element, index) => (
        <li key={index}>
          <i>{kind === 'set' ? `${index + 1}~` : `${index + 1})`}</i>
          <ReplyView reply={element} />
        </li>
      ))}
      <More left={all.length - shown} onMore={() => setShown(shown + STEP * 10)} />
    </ol>
  );
}

function Pairs(props: { all: [Reply, Reply][] }) {
  const [shown, setShown] = useState(STEP);
  const { all } = props;
  if (all.length === 0) return <span class="reply nothing">(empty map)</span>;
  return (
    <ol class="reply-list">
      {all.slice(0, shown).map(([name, value], index) => (
        <li key={index}>
          <i>{index + 1}#</i>
          <div class="pair">
            <ReplyView reply={name} />
            <i>⇒</i>
            <ReplyView reply={value} />
          </div>
        </li>
      ))}
      <More left={all.length - shown} onMore={() => setShown(shown + STEP * 10)} />
    </ol>
  );
}

const More = (props: { left: number; onMore: () => void }) =>
  props.left > 0 ? (
    <li>
      <button type="button" class="small" onClick={props.onMore}>
        {props.left} more
      </button>
    </li>
  ) : null;
