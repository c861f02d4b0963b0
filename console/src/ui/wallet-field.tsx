import { type ReactNode, useId } from 'react';
import { TextField } from './field.tsx';
import { NamedIds } from './names.tsx';

/** A field for the id of a wallet. It offers the names of the newest; any other id can be pasted. */
export function WalletField({
  label,
  param,
  hint,
  value,
  onChange,
}: {
  readonly label: string;
  readonly param: string;
  readonly hint: string;
  readonly value: string;
  onChange(value: string): void;
}): ReactNode {
  const id = useId();
  return (
    <>
      <TextField
        label={label}
        param={param}
        hint={hint}
        placeholder="A name, or wal_…"
        maxLength={64}
        list={id}
        value={value}
        onChange={onChange}
      />
      <NamedIds id={id} of={['wal']} />
    </>
  );
}
