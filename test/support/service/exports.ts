import { type ClientRequest, get, type IncomingMessage } from 'node:http';
import { LineSplitter } from '../../../clients/node/src/verify/export-lines.ts';
import type { ExportVerdict } from '../../../clients/node/src/verify/export-verifier.ts';
import { appendRecords, type NewRecord } from '../../../control-plane/attestations/append-records.ts';
import { keyset, parseJwks } from '../../../shared/crypto/keyset.ts';
import type { AttestationRecord, ChainId } from '../../../shared/model/attestation.ts';
import type { AccountId, GateId, PassportId } from '../../../shared/model/ids.ts';
import type { Owner } from '../../../shared/model/owner.ts';
import { sampleRecord } from '../data/sample-chains.ts';
import { verdictOf } from '../data/verify-export.ts';
import type { Api } from './api.ts';

/**
 * Records, as they are appended to the chains of things that exist in the service, and the exports of them.
 */

export const liveOwner = (accountId: string): Owner => ({ accountId: accountId as AccountId, mode: 'live' });

/** Of the first account, whose key `api.adminKey` is. */
export async function operatorOf(api: Api): Promise<Owner> {
  const rows = await api.deps.sql<{ account_id: AccountId }[]>`
    SELECT account_id FROM accounts WHERE is_operator`;
  return liveOwner(rows[0]?.account_id ?? '');
}

/** Of whom this admin key is. */
export async function ownerOf(api: Api, key = api.adminKey): Promise<Owner> {
  const { account_id, mode } = (await api.call({ url: '/v1/whoami', key })).body;
  return { accountId: account_id, mode };
}

interface About {
  /** Null: no passport verified. */
  readonly passport: { readonly id: string; readonly owner: Owner } | null;
  readonly gateId: string | null;
  /** Of the gate, or of whoever asked without one. */
  readonly gateOwner: Owner;
}

/** A record in the chain that it belongs to by the rules of contract §9. */
export function newRecord(api: Api, about: About, change: Partial<AttestationRecord> = {}): NewRecord {
  const { passport, gateId, gateOwner } = about;
  const nowMs = api.deps.clock.now();
  const refused = { decision: 'BLOCK', reason: 'passport_malformed' } as const;
  return {
    record: sampleRecord(0, {
      id: api.deps.random.newId('att', nowMs),
      chainId: (passport?.id ?? gateId ?? gateOwner.accountId) as ChainId,
      passportId: (passport?.id ?? null) as PassportId | null,
      gateId: gateId as GateId | null,
      timestampMs: nowMs,
      ...(passport === null ? refused : {}),
      ...change,
    }),
    passportOwner: passport?.owner ?? null,
    gateOwner,
  };
}

/** Gates as rows alone, to which chains belong: faster than calls. */
export async function addGateRows(
  api: Api,
  { accountId, mode }: Owner,
  gateIds: readonly string[],
): Promise<void> {
  await api.deps.sql`
    INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, version, policy_version, created_at_ms, updated_at_ms)
    SELECT gate_id, ${accountId}, ${mode}, 'Test', 'L1', '{}', 1, 1, 0, 0 FROM unnest(${gateIds as string[]}::text[]) AS new (gate_id)`;
}

export async function append(api: Api, records: readonly NewRecord[]): Promise<void> {
  for (let i = 0; i < records.length; i += 1_000) {
    await api.deps.sql.begin((tx) => appendRecords(tx, api.deps, records.slice(i, i + 1_000)));
  }
}

export async function verifyText(api: Api, text: string): Promise<ExportVerdict> {
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  const splitter = new LineSplitter({ lineBytesMax: Buffer.byteLength(text) });
  const lines = [...splitter.push(Buffer.from(text)), ...splitter.end()];
  return verdictOf(lines, keyset(api.deps.ed25519, parseJwks(jwks.body)));
}

/** The export as it goes over the wire: as text, also where `api.call` would parse it. */
export async function exportText(api: Api, query = '', key = api.adminKey): Promise<string> {
  const { payload, statusCode } = await api.app.inject({
    url: `/v1/attestations/export${query}`,
    headers: { authorization: `Bearer ${key}` },
  });
  if (statusCode !== 200) throw new Error(`${statusCode}: ${payload}`);
  return payload;
}

export const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

export interface Download {
  readonly request: ClientRequest;
  /** Paused: nothing of the body is read unless the test does. */
  readonly response: IncomingMessage;
}

/** A download over a real socket of its own. */
export function download(origin: string, key: string, query = ''): Promise<Download> {
  return new Promise((resolve, reject) => {
    const request = get(
      `${origin}/v1/attestations/export${query}`,
      { headers: { authorization: `Bearer ${key}` }, agent: false },
      (response) => {
        response.pause();
        resolve({ request, response });
      },
    );
    request.on('error', reject);
  });
}

export async function readToEnd(
  response: IncomingMessage,
): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const chunks: Buffer[] = [];
  response.on('data', (chunk: Buffer) => chunks.push(chunk)).resume();
  const isWhole = await new Promise<boolean>((resolve) => {
    response.on('end', () => resolve(response.complete));
    response.on('error', () => resolve(false));
  });
  return { text: Buffer.concat(chunks).toString('utf8'), isWhole };
}

/**
 * A client of the database that stands in a transaction: this side of it, not an autovacuum worker, which may
 * come at any moment.
 */
export interface OpenTransaction {
  readonly pid: number;
  readonly state: string;
  readonly query_start: Date;
}

export async function openTransactions({ deps }: Pick<Api, 'deps'>): Promise<readonly OpenTransaction[]> {
  return deps.sql<OpenTransaction[]>`
    SELECT pid, state, query_start FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`;
}
