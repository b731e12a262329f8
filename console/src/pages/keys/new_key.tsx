// Makes a key that is not there yet.

import { useState } from 'preact/hooks';
import type { Word } from '../../api/reply';
import { run } from '../../state';
import { FormDialog } from '../../ui/form';
import { makingOf } from './kinds';

const TYPES = ['string', 'hash', 'list', 'set', 'zset', 'stream'] as const;

export function NewKey(props: {
  db: number;
  onClose: () => void;
  onMade: (key: Word, db: number) => void;
}) {
  // Where it was opened, whatever the address names meanwhile.
  const [db] = useState(props.db);
  return (
    <FormDialog
      title={`New key in database ${db}`}
      fields={[
        { name: 'Name' },
        { name: 'Type', options: TYPES, value: 'string' },
        {
          name: 'Value',
          hint: 'of a string as it is; else words: field value, element element, score member',
          long: true,
          optional: true,
        },
        { name: 'Seconds to live', hint: 'nothing: for ever', optional: true },
      ]}
      save="Make"
      onSave={async (values) => {
        const name = values.Name ?? '';
        if ((await run(['EXISTS', name], db)) !== 0)
          throw new Error('There is a key of that name.');
        await run(makingOf(name, values.Type ?? '', values.Value ?? ''), db);
        const seconds = Number(values['Seconds to live']);
        if (seconds > 0) await run(['PEXPIRE', name, String(Math.round(seconds * 1000))], db);
        props.onMade(name, db);
      }}
      onClose={props.onClose}
    />
  );
}
