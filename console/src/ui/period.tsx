import { type ReactNode, useState } from 'react';
import { Select, TextField } from './field.tsx';

/** A time as `datetime-local` has it, of the reader's zone, as the API takes it; undefined: none. */
export function isoOf(local: string): string | undefined {
  const at = new Date(local);
  return local === '' || Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

function localOf(iso: string | undefined): string {
  const at = new Date(iso ?? '');
  if (Number.isNaN(at.getTime())) return '';
  const pad = (part: number): string => String(part).padStart(2, '0');
  const day = `${String(at.getFullYear()).padStart(4, '0')}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

const hoursOf = [
  ['1', 'Last hour'],
  ['24', 'Last 24 hours'],
  ['168', 'Last 7 days'],
  ['720', 'Last 30 days'],
] as const;
const custom = ['custom', 'From … to …'] as const;

/** The filters `since` and `until` of a list: a span up to now, or two times of one's own. */
export function Period({
  since,
  until,
  allTime = 'All time',
  onChange,
}: {
  readonly since: string | undefined;
  readonly until: string | undefined;
  /** What no choice means. */
  readonly allTime?: string;
  onChange(next: { readonly since?: string | undefined; readonly until?: string | undefined }): void;
}): ReactNode {
  const [isCustom, setCustom] = useState(since !== undefined || until !== undefined);
  const choose = (hours: string) => {
    setCustom(hours === 'custom');
    if (hours === 'custom') return;
    const from = hours === '' ? undefined : new Date(Date.now() - Number(hours) * 3_600_000).toISOString();
    onChange({ since: from, until: undefined });
  };
  const isSet = since !== undefined || until !== undefined;
  return (
    <>
      <Select
        label="Period"
        value={isCustom || isSet ? 'custom' : ''}
        onChange={choose}
        options={[['', allTime], ...hoursOf, custom]}
      />
      {isCustom || isSet ? (
        <>
          <TextField
            label="From"
            type="datetime-local"
            value={localOf(since)}
            onChange={(local) => onChange({ since: isoOf(local), until })}
          />
          <TextField
            label="To"
            type="datetime-local"
            value={localOf(until)}
            onChange={(local) => onChange({ since, until: isoOf(local) })}
          />
        </>
      ) : null}
    </>
  );
}
