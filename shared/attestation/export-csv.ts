import type { Attestation } from '../model/attestation.ts';
import { type AttestationAnswer, renderAttestation } from '../wire/evidence/attestation.ts';
import type { ExportWriter } from './export.ts';

/** The order never changes, for readers by position. New columns go last. */
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
  'policy_hash',
  'trust_level',
  'domain',
  'state_age_ms',
  'approval_id',
  'wallet_id',
  'hold_expires_at',
  'proof',
  'asserted',
  'conditions',
  'external',
  'facts',
  'permit_token',
  'shadow',
  'units',
  'user',
  'wallet_path',
] as const satisfies readonly (keyof AttestationAnswer)[];

/** The first line, without its line end. */
export const csvHeader = csvColumns.join(',');

/**
 * The records of an export as CSV (RFC 4180: CRLF, cells in quotes where they must be), for spreadsheets: in
 * the order of jsonl, without manifest, headers of chains, policies and end, which are no rows. So a
 * truncated file looks whole, and CSV cannot be verified. Null is an empty cell; names of checks are
 * separated by spaces; findings of personal data are JSON, or an empty cell for none; so are other lists and
 * objects.
 *
 * Each broken chain has a row at the end without an id: spreadsheets show it, and programs do not mistake it
 * for a record.
 */
export function csvWriter(): ExportWriter {
  return {
    manifest: () => `${csvHeader}\r\n`,
    chain: () => '',
    record: (attestation) => `${cellsOf(attestation).map(guarded).map(quoted).join(',')}\r\n`,
    facts: () => '',
    attachment: () => '',
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
      default: {
        const value = record[column] ?? '';
        return typeof value === 'object' ? JSON.stringify(value) : String(value);
      }
    }
  });
}

/**
 * Spreadsheets run a cell with such a start as a formula (OWASP "CSV Injection"). Callers of a gate choose
 * permission keys, and a signature may begin with `-`. A leading apostrophe makes it text; no other cell
 * begins with one, so programs can strip it safely. East Asian locales treat the wide forms like the narrow
 * ones.
 */
const formulaStart = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

const guarded = (cell: string): string => (formulaStart.test(cell) ? `'${cell}` : cell);

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
