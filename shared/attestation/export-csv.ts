import type { Attestation } from '../model/attestation.ts';
import { type AttestationAnswer, renderAttestation } from '../wire/attestation.ts';
import type { ExportWriter } from './export.ts';

/** In this order for ever: whoever reads by position goes on reading. A new one is added behind. */
const csvColumns = [
  'id',
  'timestamp',
  'chain_id',
  'sequence',
  'passport_id',
  'gate_id',
  'decision',
  'reason',
  'permission_key',
  'amount_micro_usd',
  'constraints_evaluated',
  'pii',
  'test',
  'resolution',
  'source',
  'request_hash',
  'previous_attestation_hash',
  'hash',
  'signature',
  'signing_key_id',
  'refers_to',
  'source_account',
] as const satisfies readonly (keyof AttestationAnswer)[];

/** The first line, without its line end. */
export const csvHeader = csvColumns.join(',');

/**
 * The records of an export as CSV (RFC 4180: CRLF, cells in quotes where they must be), for spreadsheets: in
 * the order of jsonl, without manifest, headers of chains and end, which are no rows. So a file that breaks
 * off cannot be told from a whole one, and nothing verifies it. Null is an empty cell; names of checks are
 * side by side with a space between; findings of personal data are JSON, none an empty cell.
 *
 * What is broken has a row at the end, without an id, so that a spreadsheet shows it and no program takes it
 * for a record.
 */
export function csvWriter(): ExportWriter {
  return {
    manifest: () => `${csvHeader}\r\n`,
    chain: () => '',
    record: (attestation) => `${cellsOf(attestation).map(guarded).map(quoted).join(',')}\r\n`,
    end: ({ broken, brokenUnnamed }) =>
      broken
        .map(({ chain_id, sequence, fault }) =>
          brokenRow({ chain_id, sequence: String(sequence), reason: `broken: ${fault}` }),
        )
        .concat(brokenUnnamed === 0 ? [] : brokenRow({ reason: `broken: ${brokenUnnamed} more chains` }))
        .join(''),
  };
}

const brokenRow = (cells: Partial<Record<(typeof csvColumns)[number], string>>): string =>
  `${csvColumns.map((column) => quoted(guarded(cells[column] ?? ''))).join(',')}\r\n`;

function cellsOf(attestation: Attestation): string[] {
  const record = renderAttestation(attestation);
  return csvColumns.map((column) => {
    switch (column) {
      case 'constraints_evaluated':
        return record.constraints_evaluated.join(' ');
      case 'pii':
        return record.pii.length === 0 ? '' : JSON.stringify(record.pii);
      default:
        return String(record[column] ?? '');
    }
  });
}

/**
 * Spreadsheets run what begins like this as a formula (OWASP "CSV Injection"), and the caller of a gate
 * chooses permission keys; a signature may begin with `-` by itself. An apostrophe before it makes it text.
 * No cell begins with one otherwise, so that a program takes it off again without a doubt. The wide forms
 * count as the narrow ones in East Asian locales.
 */
const formulaStart = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

const guarded = (cell: string): string => (formulaStart.test(cell) ? `'${cell}` : cell);

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
