import { type ReactNode, useState } from 'react';
import { type Search, useAddress } from '../api/address.ts';
import { useSession } from '../api/session.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { Select, TextField } from './field.tsx';
import { Form } from './form.tsx';

interface Saved {
  readonly name: string;
  readonly search: Search;
}

/** More would be a list to search in itself; the oldest goes first. */
const savedMost = 20;

/** In this browser, for this account and world: what one person calls a filter is of no use to others. */
function usePlace(list: string): string {
  const { session, mode } = useSession();
  return `agent-trust.filters ${session.account.account_id} ${mode} ${list}`;
}

function read(place: string): readonly Saved[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(place) ?? '[]');
    return Array.isArray(stored) ? stored.filter(isSaved).slice(-savedMost) : [];
  } catch {
    return [];
  }
}

/** Anything of this origin may have written there. */
function isSaved(value: unknown): value is Saved {
  if (typeof value !== 'object' || value === null) return false;
  const { name, search } = value as Partial<Record<keyof Saved, unknown>>;
  if (typeof name !== 'string' || typeof search !== 'object' || search === null) return false;
  return Object.values(search).every((each) => typeof each === 'string');
}

/** Filters of a list that a person has given a name: to choose, to add the ones of now, to forget. */
export function SavedFilters({
  list,
  names,
}: {
  readonly list: string;
  /** Members of the address that are filters. */
  readonly names: readonly string[];
}): ReactNode {
  const { search, set } = useAddress();
  const place = usePlace(list);
  const [saved, setSaved] = useState(() => read(place));
  const [isNaming, setNaming] = useState(false);
  const [name, setName] = useState('');
  const given = Object.fromEntries(
    names.flatMap((each) => (search[each] === undefined ? [] : [[each, search[each]]])),
  );
  const isGiven = ({ search: each }: Saved) =>
    names.every((member) => (each[member] ?? undefined) === search[member]);
  const current = Object.keys(given).length === 0 ? undefined : saved.find(isGiven);
  const keep = (next: readonly Saved[]) => {
    const kept = next.slice(-savedMost);
    localStorage.setItem(place, JSON.stringify(kept));
    setSaved(kept);
  };
  const choose = (chosen: string) => {
    const found = saved.find((each) => each.name === chosen);
    if (found !== undefined) set(Object.fromEntries(names.map((each) => [each, found.search[each]])));
  };
  const save = () => {
    keep([...saved.filter((each) => each.name !== name.trim()), { name: name.trim(), search: given }]);
    setNaming(false);
    setName('');
  };
  return (
    <>
      {saved.length === 0 ? null : (
        <Select
          label="Saved filters"
          value={current?.name ?? ''}
          onChange={choose}
          options={[['', 'Choose'], ...saved.map((each) => [each.name, each.name] as const)]}
        />
      )}
      {current === undefined ? null : (
        <button
          type="button"
          className="button"
          onClick={() => keep(saved.filter((each) => each.name !== current.name))}
        >
          Forget this filter
        </button>
      )}
      {current === undefined && Object.keys(given).length > 0 ? (
        <button type="button" className="button" onClick={() => setNaming(true)}>
          Save this filter
        </button>
      ) : null}
      {isNaming ? (
        <Dialog title="Save this filter" onClose={() => setNaming(false)}>
          <Form error={null} onSubmit={save}>
            <TextField
              label="Name"
              hint="Kept in this browser."
              required
              maxLength={60}
              value={name}
              onChange={setName}
            />
            <DialogActions onCancel={() => setNaming(false)} submit="Save" isBusy={name.trim() === ''} />
          </Form>
        </Dialog>
      ) : null}
    </>
  );
}
