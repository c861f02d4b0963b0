import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { TextField } from './field.tsx';
import { Empty } from './page.tsx';

export interface NameFilter {
  /** For the key of the list's query. */
  readonly part: string | null;
  /** For the API's list. */
  readonly query: { readonly name?: string };
  readonly field: ReactNode;
  /** What an empty list shows. */
  orNone(empty: ReactNode): ReactNode;
}

/** The filter of a list by a part of the name. It is in the address, so links and reloads keep it. */
export function useNameFilter(placeholder: string): NameFilter {
  const { search, set } = useAddress();
  const part = search['name'] ?? null;
  return {
    part,
    query: part === null || part.trim() === '' ? {} : { name: part.trim() },
    field: (
      <div className="filters">
        <TextField
          label="Name"
          placeholder={placeholder}
          maxLength={200}
          value={part ?? ''}
          onChange={(value) => set({ name: value === '' ? undefined : value })}
        />
      </div>
    ),
    orNone: (empty) => (part === null ? empty : <Empty title="None match">Take the filter away.</Empty>),
  };
}
