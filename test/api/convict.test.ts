import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { convictCommand, verifyReceiptCommand } from '../../cli/verify/convict.ts';
import { ReceiptAgainstExport } from '../../shared/attestation/receipt-against-export.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { ReceiptStatement } from '../../shared/wire/evidence/decision-receipt.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { exportText } from '../support/service/exports.ts';
import { testReceipt } from '../support/service/receipts.ts';
import { useApi } from '../support/service/use-api.ts';

const request = { permission_key: 'orders:create' };

function expectSaid(ran: { readonly code: number; readonly said: string }, code: number, said: string): void {
  expect(ran).toMatchObject({ code, said: expect.stringContaining(said) });
}

describe('agent-trust evidence', () => {
  const folder = temporaryFolder();
  const api = useApi();
  let record: Readonly<Record<string, string | number | null>>;
  let gate: string;
  let passport: { jwt: string; passport_id: string };
  let jwks: string;

  beforeAll(async () => {
    gate = (await api.createGate()).gate_id;
    passport = await api.issuePassport();
    const ids = [await decide(), await decide()];
    record = (await api.call({ url: `/v1/attestations/${ids[0]}` })).body;
    jwks = written('jwks.json', (await api.call({ url: '/.well-known/jwks.json', key: null })).body);
  });
  afterAll(() => folder.remove());

  async function decide(): Promise<string> {
    const body = { passport: passport.jwt, request };
    return (await api.call({ url: `/v1/gates/${gate}/check`, body })).body.attestation_id;
  }
  function written(name: string, value: unknown): string {
    const path = join(folder.path, name);
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
    return path;
  }
  let exports = 0;
  const exported = async (query = '') => written(`export ${exports++}`, await exportText(api, query));

  const receiptOf = (stated: Partial<ReceiptStatement> = {}) =>
    testReceipt(
      api,
      {
        ...{ attestation_id: String(record['id']), chain_id: passport.passport_id, gate_id: gate },
        ...{ request_hash: contentHash(request), ...stated },
      },
      { atMs: Date.parse(String(record['timestamp'])) },
    );

  async function run(command: (sinks: Parameters<typeof convictCommand>[1]) => Promise<number>) {
    const said: string[] = [];
    const sink = { write: (text: string) => void said.push(text) };
    return { code: await command({ output: sink, errors: sink }), said: said.join('') };
  }
  const convict = async (receipt: unknown, ...exports: readonly string[]) =>
    run((sinks) => convictCommand({ receipt: written('receipt', receipt), exports, jwks }, sinks));

  it.each(['', '?format=json'])('holds a receipt against an export%s', async (query) => {
    const file = await exported(query);
    const never = 'att_01m7w73bk9f1gv8q5vw2f2k1qm';
    expectSaid(await convict(receiptOf(), file), 0, 'OK: the export has it, as record 1 of chain pass_');
    // In an answer, as it came.
    expect((await convict({ decision: 'PERMIT', receipt: receiptOf() }, file)).code).toBe(0);
    const cases: readonly (readonly [Partial<ReceiptStatement>, number, string])[] = [
      [{ attestation_id: never }, 5, 'CONVICTED: the record was promised by'],
      [{ request_hash: contentHash({ other: true }) }, 5, 'has this id and another request_hash'],
      [{ decision: 'BLOCK', reason: 'passport_revoked' }, 5, 'has this id and another decision'],
      [{ chain_id: 'pass_of_another' }, 5, 'has this id and another chain_id'],
      [{ attestation_id: never, chain_id: 'pass_of_another' }, 6, 'has no chain pass_of_another'],
      [{ attestation_id: never, log_by: '2099-01-01T00:00:00.000Z' }, 6, 'made later than a minute after'],
    ];
    for (const [changed, code, said] of cases)
      expectSaid(await convict(receiptOf(changed), file), code, said);
  });

  it('does not convict by an export that begins later, that does not verify, or by another key', async () => {
    const never = { attestation_id: 'att_01m7w73bk9f1gv8q5vw2f2k1qm' };
    const since = (await api.call({ url: `/v1/attestations/${await decide()}` })).body.timestamp;
    const later = await exported(`?since=${encodeURIComponent(since)}`);
    expectSaid(await convict(receiptOf(never), later), 6, 'does not begin with its first record');
    const file = await exported();
    const changed = readFileSync(file, 'utf8').replace('"PERMIT"', '"BLOCK"');
    expectSaid(
      await convict(receiptOf(never), written('changed', changed)),
      2,
      'does not verify, so it is held against nothing',
    );
    const { certificate, ...rest } = receiptOf(never);
    const other = { ...certificate, account_id: 'acct_of_another' };
    expectSaid(await convict({ ...rest, certificate: other }, file), 5, 'NOT OK: ');
    expect((await convict('{', file)).code).toBe(2);
    expect((await convict(receiptOf(), join(folder.path, 'absent'))).code).toBe(2);
  });

  it('holds a receipt against an export that goes on from another, which comes first', async () => {
    const never = { attestation_id: 'att_01m7w73bk9f1gv8q5vw2f2k1qm' };
    const earlier = await exported();
    const since = (await api.call({ url: `/v1/attestations/${await decide()}` })).body.timestamp;
    const later = await exported(`?since=${encodeURIComponent(since)}`);
    expect((await convict(receiptOf(), later)).code).toBe(6);
    expect((await convict(receiptOf(), earlier, later)).code).toBe(0);
    expectSaid(await convict(receiptOf(never), earlier, later), 5, 'CONVICTED: the record was promised by');
    for (const wrong of [
      [later, earlier],
      [earlier, earlier],
    ])
      expectSaid(
        await convict(receiptOf(never), ...wrong),
        2,
        'does not verify, so it is held against nothing',
      );
  });

  it('verifies a receipt, of a request, and not of a revoked key', async () => {
    const receipt = written('one', receiptOf());
    const verify = (more: object) => run((sinks) => verifyReceiptCommand({ receipt, jwks, ...more }, sinks));
    expectSaid(await verify({}), 0, 'has signed PERMIT');
    expect((await verify({ request: written('request', { ...request, approval_id: 'a' }) })).code).toBe(0);
    expectSaid(await verify({ request: written('request', { amount: 1 }) }), 5, 'of another request');
    const { kid } = receiptOf().certificate;
    const list = written('revoked', { revoked: [{ kid, revoked_at: new Date(0).toISOString() }] });
    expectSaid(await verify({ revoked: list }), 5, 'was revoked');
    expect((await verify({ revoked: written('revoked', {}) })).code).toBe(2);
  });

  it('convicts by a record that was taken back although it was answered', () => {
    const { statement } = receiptOf();
    const against = new ReceiptAgainstExport(statement);
    const line = (more: object) => JSON.stringify({ ...record, ...more });
    against.see(line({}));
    expect(against.finish()).toEqual({ kind: 'kept', sequence: 1 });
    against.see(line({ id: 'att_2', refers_to: record['id'], resolution: 'settled', sequence: 2 }));
    expect(against.finish()).toEqual({ kind: 'kept', sequence: 1 });
    against.see(line({ id: 'att_3', refers_to: record['id'], resolution: 'voided', sequence: 3 }));
    expect(against.finish()).toEqual({ kind: 'voided', sequence: 3 });
  });
});
