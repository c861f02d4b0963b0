import { type ReactNode, useState } from 'react';
import { Dialog } from './dialog.tsx';
import { ExportLink } from './export-link.tsx';
import { Select, TextField } from './field.tsx';
import { isoOf } from './period.tsx';

/** Formats of `GET /attestations/export`, with what each is for. */
const formats = [
  ['jsonl', 'JSON Lines: to verify, and to keep'],
  ['json', 'JSON: one document, to verify'],
  ['csv', 'CSV: for a spreadsheet'],
  ['ocsf', 'OCSF: for a SIEM or a security data lake'],
  ['dsse', 'DSSE: in-toto statements, each signed'],
] as const;

/** As the service names the file. */
const extensionOf = (format: string): string =>
  format === 'ocsf' || format === 'dsse' ? `${format}.jsonl` : format;

const periods = [
  ['', 'Everything'],
  ['24', 'The last 24 hours'],
  ['168', 'The last 7 days'],
  ['720', 'The last 30 days'],
  ['custom', 'Since a day of your choice'],
] as const;

/** A button that asks for format and period and then downloads the export. */
export function ExportButton({ path, file }: { readonly path: string; readonly file: string }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="button" onClick={() => setOpen(true)}>
        Export
      </button>
      {isOpen ? <ExportDialog path={path} file={file} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function ExportDialog({
  path,
  file,
  onClose,
}: {
  readonly path: string;
  readonly file: string;
  onClose(): void;
}): ReactNode {
  const [format, setFormat] = useState('jsonl');
  const [period, setPeriod] = useState('');
  const [from, setFrom] = useState('');
  const since =
    period === 'custom'
      ? isoOf(from)
      : period === ''
        ? undefined
        : new Date(Date.now() - Number(period) * 3_600_000).toISOString();
  const query = new URLSearchParams({ format, ...(since === undefined ? {} : { since }) });
  return (
    <Dialog title="Export records" onClose={onClose}>
      <Select label="Format" value={format} onChange={setFormat} options={formats} />
      <Select label="Period" value={period} onChange={setPeriod} options={periods} />
      {period === 'custom' ? (
        <TextField label="Since" type="datetime-local" value={from} onChange={setFrom} />
      ) : null}
      <p className="soft small">
        Each chain begins with its first record of the period and is whole from there, so that it verifies.
      </p>
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
        <ExportLink
          path={`${path}?${query}`}
          file={`${file}.${extensionOf(format)}`}
          className="button primary"
        >
          Download
        </ExportLink>
      </div>
    </Dialog>
  );
}
