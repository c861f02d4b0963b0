import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { convictCommand } from '../../cli/verify/convict.ts';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { appendRecords } from '../../control-plane/attestations/append-records.ts';
import { insertAuditEntry } from '../../control-plane/audit/audit-store.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { findEntry, readPublished, readRanges } from '../../control-plane/log/log-store.ts';
import { emptyAuditChain, linkAuditEntry } from '../../shared/audit/entry.ts';
import { must } from '../../shared/errors/assert.ts';
import { inclusionRanges } from '../../shared/log/merkle.ts';
import { renderLogProof } from '../../shared/log/proof.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import type { AuditEntry } from '../../shared/model/audit.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { parseAttestation } from '../../shared/wire/evidence/attestation.ts';
import { parseAuditEntry } from '../../shared/wire/evidence/audit.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { startOwnApi } from '../support/service/api.ts';
import { exportText, linesOf, liveOwner } from '../support/service/exports.ts';
import { testReceipt } from '../support/service/receipts.ts';
import { giveAnswer, registerPasskey, signAnswer } from '../support/service/signed-answers.ts';
import { order } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';
import { logLines, policyOf, type TestWitness, testWitness } from '../support/service/witnesses.ts';

/**
 * What an operator who holds database and keys can do to a history, and the offline check that finds it out
 * (docs/evidence.md). Each row first shows that the same check takes the honest history.
 */
const api = useApi(() => startOwnApi({ origin: 'http://localhost:8080' }));
let witness: TestWitness;
let writer: LogWriter;
let policy: string;
const folder = temporaryFolder();
beforeAll(async () => {
  witness = await testWitness('w1', logLines(api));
  writer = new LogWriter({ ...api.deps, witnesses: policyOf([witness], 1) }, async () => undefined);
  const own = `witness w1 ${witness.vkey} ${witness.origin}\ngroup enough 1 w1\nquorum enough\n`;
  policy = file('log.policy', `${logLines(api)}${own}`);
});
afterAll(async () => {
  await witness?.remove();
  folder.remove();
});

function file(name: string, text: string): string {
  const path = join(folder.path, name);
  writeFileSync(path, text);
  return path;
}

interface World {
  readonly accountId: string;
  readonly key: string;
  readonly passportId: string;
  /** Of its records, in their order. */
  readonly ids: readonly string[];
  readonly decide: (amount?: number) => Promise<string>;
}

/** An account of its own, whose one chain has three records, all of them in a witnessed checkpoint. */
async function makeWorld(): Promise<World> {
  const { accountId, key } = await api.createAccount();
  const gate = (await api.createGate({}, key)).gate_id;
  const { jwt, passport_id: passportId } = await api.issuePassport({}, key);
  const decide = async (amount = 5): Promise<string> => {
    const body = { passport: jwt, request: order(amount) };
    return (await api.call({ url: `/v1/gates/${gate}/check`, key, body })).body.attestation_id;
  };
  const ids = [await decide(), await decide(), await decide()];
  await writer.round(() => false);
  return { accountId, key, passportId, ids, decide };
}

const jwks = async () =>
  file('jwks.json', JSON.stringify((await api.call({ url: '/.well-known/jwks.json', key: null })).body));

/** `agent-trust attestations verify`, with a proof that was kept where one is given. */
async function verify(exported: string, proof?: string) {
  const said: string[] = [];
  const output = { write: (text: string) => void said.push(text) };
  const code = await verifyAttestationsCommand({
    files: [file('records.jsonl', exported)],
    jwks: await jwks(),
    ...(proof !== undefined && { proofs: { files: [file('kept.tlog-proof', proof)], policy } }),
    ...{ output, errors: output },
  });
  return { code, said: said.join('') };
}
const honest = { code: 0, said: expect.stringContaining('OK: ') };
const found = (what: string) => ({ code: 5, said: expect.stringContaining(what) });

/** An operator who hands out a file leaves the log's own proofs out of it. */
const withoutProofs = (exported: string): string => exported.replaceAll(/"log_proof":"[^"]*",/g, '');

/** The service compares its exports with its log; the tree of the log, which others have seen, stays. */
const forgetInLog = (chainId: string) => api.deps.sql`DELETE FROM log_entries WHERE chain_id = ${chainId}`;

/** Nor does the service say what it has noticed itself. */
const silent = (exported: string): string => exported.replace(/"broken":\[[^\]]*\],/, '');

const proofOf = async ({ key }: World, id: string): Promise<string> =>
  (await api.call({ url: `/v1/attestations/${id}/proof`, key })).body;

/** Writes the chain of a world anew: linked and signed as by the service, with its own keys. */
async function rewrite(
  world: World,
  change: (records: readonly Attestation[]) => readonly Attestation[],
): Promise<void> {
  const { passportId, accountId, key } = world;
  const lines = linesOf(await exportText(api, '', key));
  const records = lines.flatMap((line) => parseAttestation(line) ?? []);
  await api.deps.sql.begin(async (tx) => {
    await tx`DELETE FROM records WHERE chain = (SELECT number FROM chains WHERE chain_id = ${passportId})`;
    await tx`UPDATE chains SET sequence = 0, hash = NULL WHERE chain_id = ${passportId}`;
    const owner = liveOwner(accountId);
    const drafts = change(records).map((record) => ({ record, passportOwner: owner, gateOwner: owner }));
    await appendRecords(tx, api.deps, drafts);
  });
}
const dearer = ([first, ...rest]: readonly Attestation[]): Attestation[] => [
  { ...must(first, 'it has records'), amountMicroUsd: 1_000_000 as Attestation['amountMicroUsd'] },
  ...rest,
];

describe('an operator who', () => {
  it('changes a record is found out by `attestations verify`', async () => {
    const { key, passportId } = await makeWorld();
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    await api.deps.sql`
      UPDATE records SET amount_micro_usd = 1 FROM chains
      WHERE chain = number AND chain_id = ${passportId} AND records.sequence = 2`;
    expect(await verify(await exportText(api, '', key))).toMatchObject(
      found('the signature of this record is not valid'),
    );
  });

  it('drops a record inside is found out by `attestations verify`', async () => {
    const { key, passportId } = await makeWorld();
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    await api.deps.sql`
      DELETE FROM records USING chains
      WHERE chain = number AND chain_id = ${passportId} AND records.sequence = 2`;
    const exported = await exportText(api, '', key);
    expect(await verify(exported)).toMatchObject(found(`chain ${passportId}, sequence 2`));
    // Also where the service is made to be silent about it.
    expect(silent(exported)).not.toBe(exported);
    expect((await verify(silent(exported))).code).toBe(5);
  });

  it('cuts records off the end, and their head row with them, is found out by a proof of the log', async () => {
    const world = await makeWorld();
    const { key, passportId, ids } = world;
    const proof = await proofOf(world, must(ids[2], 'a record'));
    expect(await verify(await exportText(api, '', key), proof)).toMatchObject(honest);
    const { sql } = api.deps;
    const { body: second } = await api.call({ url: `/v1/attestations/${ids[1]}`, key });
    await sql`DELETE FROM records USING chains
      WHERE chain = number AND chain_id = ${passportId} AND records.sequence = 3`;
    await sql`UPDATE chains SET sequence = 2, hash = ${second.hash} WHERE chain_id = ${passportId}`;
    const exported = await exportText(api, '', key);
    expect(await verify(exported)).toMatchObject(found('the transparency log has a later record of it'));
    expect(await verify(silent(exported))).toMatchObject(honest);
    expect(await verify(silent(exported), proof)).toMatchObject(found('it was cut off'));
  });

  it('leaves a record out that a receipt promised is convicted by `evidence convict`', async () => {
    const world = await makeWorld();
    const { key, passportId, ids, decide } = world;
    const { body: first } = await api.call({ url: `/v1/attestations/${ids[0]}`, key });
    const { decision, gate_id, reason, request_hash, timestamp } = first;
    const stated = {
      attestation_id: first.id,
      chain_id: passportId,
      decision,
      gate_id,
      reason,
      request_hash,
    };
    const receipt = testReceipt(
      api,
      { ...stated, issued_at: timestamp, log_by: new Date(Date.parse(timestamp) + 10_000).toISOString() },
      { atMs: api.deps.clock.now() },
    );
    api.advance(2 * minuteMs);
    await decide();
    const convict = async () => {
      const said: string[] = [];
      const sink = { write: (text: string) => void said.push(text) };
      const files = { receipt: file('receipt.json', JSON.stringify(receipt)), jwks: await jwks() };
      const exported = file('records.jsonl', withoutProofs(await exportText(api, '', key)));
      const code = await convictCommand({ ...files, exports: [exported] }, { output: sink, errors: sink });
      return { code, said: said.join('') };
    };
    expect(await convict()).toMatchObject(honest);
    await rewrite(world, (records) => records.slice(1));
    await forgetInLog(passportId);
    expect(await verify(withoutProofs(await exportText(api, '', key)))).toMatchObject(honest);
    expect(await convict()).toMatchObject(found('CONVICTED: the record was promised'));
  });

  it('writes a whole chain anew with a fresh signature is found out by a proof of the log', async () => {
    const world = await makeWorld();
    const proof = await proofOf(world, must(world.ids[2], 'a record'));
    expect(await verify(await exportText(api, '', world.key), proof)).toMatchObject(honest);
    await rewrite(world, dearer);
    const differs = found('a record is not the one that the transparency log has');
    expect(await verify(await exportText(api, '', world.key))).toMatchObject(differs);
    await forgetInLog(world.passportId);
    const bare = withoutProofs(await exportText(api, '', world.key));
    expect(await verify(bare)).toMatchObject(honest);
    expect(await verify(bare, proof)).toMatchObject(found('is not the one that the log has'));
  });

  it('drops an audit entry, and links and signs the rest anew, is found out by a proof of the log', async () => {
    const { accountId, key } = await makeWorld();
    const audit = async () =>
      (await api.app.inject({ url: '/v1/audit/export', headers: { authorization: `Bearer ${key}` } }))
        .payload;
    const kept = await audit();
    const entries = linesOf(kept).flatMap((line) => ('operation' in line ? [parseAuditEntry(line)] : []));
    const { sequence } = must(entries.at(-1), 'it has entries');
    const proof = await provedFromTiles(`audit:${accountId}:live`, sequence);
    expect(await verify(kept, proof)).toMatchObject(honest);
    await rewriteAudit(accountId, entries.slice(1));
    await forgetInLog(`audit:${accountId}:live`);
    // As many entries as before, so that nothing seems to be cut off.
    await api.createIssuer({}, key);
    const anew = await audit();
    expect(linesOf(anew)).toHaveLength(linesOf(kept).length);
    expect(await verify(anew)).toMatchObject(honest);
    expect(await verify(anew, proof)).toMatchObject(found('is not the one that the log has'));
  });

  it('changes a policy after the fact is found out by `attestations verify`', async () => {
    const { key } = await makeWorld();
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    const { policy_hash: hash } = must(
      linesOf(await exportText(api, '', key)).find((line) => 'policy' in line),
      'the export has a policy',
    ).policy;
    const { sql } = api.deps;
    const [row] = await sql<{ body: string }[]>`SELECT body FROM policies WHERE policy_hash = ${hash}`;
    const { body } = must(row, 'the policy is kept');
    const laxer = body.replace('"constraints":{}', '"constraints":{"allowed_domains":[]}');
    expect(laxer).not.toBe(body);
    const message = api.deps.signingKeys.current('attestation').sign(`agent-trust.policy.v1:${hash}`);
    await sql`UPDATE policies SET body = ${laxer}, signature = ${message} WHERE policy_hash = ${hash}`;
    try {
      expect(await verify(await exportText(api, '', key))).toMatchObject(
        found('the content of this line does not match its hash'),
      );
    } finally {
      await sql`UPDATE policies SET body = ${body} WHERE policy_hash = ${hash}`;
    }
  });

  it('shows two exports that disagree is found out by one proof of the log, which one of them lacks', async () => {
    const world = await makeWorld();
    const { key, ids, decide } = world;
    const proof = await proofOf(world, must(ids[2], 'a record'));
    const one = await exportText(api, '', key);
    await decide();
    const longer = await exportText(api, '', key);
    // Two that agree: one goes on where the other ends.
    for (const each of [one, longer]) expect(await verify(each, proof)).toMatchObject(honest);
    await rewrite(world, dearer);
    await forgetInLog(world.passportId);
    const other = withoutProofs(await exportText(api, '', key));
    for (const each of [one, other]) expect(await verify(each)).toMatchObject(honest);
    const [first, second] = [await verify(one, proof), await verify(other, proof)];
    expect([first.code, second.code]).toEqual([0, 5]);
  });

  it('forges an approval is found out by `attestations verify`, which has what a passkey signed', async () => {
    const { key } = await api.createAccount();
    const person = await api.createUser({ role: 'approver' }, key);
    const made = await registerPasskey(api, person);
    const rules = { constraints: { approvals: { above_usd: 1, passkey: true } } };
    const { gate_id: gate } = await api.createGate(rules, key);
    const { jwt } = await api.issuePassport({}, key);
    const ask = async (request: object) =>
      (await api.call({ url: `/v1/gates/${gate}/check`, key, body: { passport: jwt, request } })).body;
    const { approval_id: id } = await ask(order(5));
    const assertion = await signAnswer(api, { person, made, id }, 'approved');
    expect((await giveAnswer(api, person, { id, answer: 'approved' }, assertion)).status).toBe(200);
    expect(await ask(order(5, { approval_id: id }))).toMatchObject({ decision: 'PERMIT' });
    const [row] = await api.deps.sql<{ assertion: object }[]>`
      SELECT assertion FROM approval_answers WHERE approval_id = ${id}`;
    const { assertion: kept } = must(row, 'the answer is kept');
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    // The person said nothing, or something else: the service says that it was this.
    const { sql } = api.deps;
    const forgeries = [
      ['NULL', 'lacks an answer, or a signature'],
      [`jsonb_set(assertion::jsonb, '{signature}', '"MAYCAQECAQE"')`, 'not signed by the passkey'],
    ];
    for (const [forged = '', what = ''] of forgeries) {
      await sql.unsafe(`UPDATE approval_answers SET assertion = ${forged} WHERE approval_id = '${id}'`);
      expect(await verify(await exportText(api, '', key))).toMatchObject(found(what));
      await sql`UPDATE approval_answers SET assertion = ${sql.json(kept as never)} WHERE approval_id = ${id}`;
    }
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    const { approval_id: denied } = await ask(order(6));
    const no = await signAnswer(api, { person, made, id: denied }, 'denied');
    expect((await giveAnswer(api, person, { id: denied, answer: 'denied' }, no)).status).toBe(200);
    expect(await verify(await exportText(api, '', key))).toMatchObject(honest);
    await sql`UPDATE approval_answers SET answer = 'approved' WHERE approval_id = ${denied}`;
    expect(await verify(await exportText(api, '', key))).toMatchObject(found('not signed by the passkey'));
  });
});

/** From what the log publishes, as any reader of tiles does it. */
async function provedFromTiles(chainId: string, sequence: number): Promise<string> {
  const { sql } = api.deps;
  const published = must(await readPublished(sql), 'there is a log');
  const { log, publishedSize: size } = published;
  const { index, head } = must(await findEntry(sql, { log, size }, chainId, sequence), 'the log has it');
  const hashes = await readRanges(sql, log, inclusionRanges(index, { from: 0, to: size }), size);
  return renderLogProof({ head, index, hashes, checkpoint: must(published.published, 'it was published') });
}

async function rewriteAudit(accountId: string, entries: readonly (AuditEntry | null)[]): Promise<void> {
  const key = api.deps.signingKeys.current('attestation');
  await api.deps.sql.begin(async (tx) => {
    await tx`DELETE FROM audit_entries WHERE account_id = ${accountId}`;
    let head: { readonly sequence: number; readonly hash: string | null } = emptyAuditChain;
    for (const entry of entries) {
      const linked = linkAuditEntry(must(entry, 'an entry is one'), head, key);
      await insertAuditEntry(tx, linked);
      head = linked;
    }
    await tx`
      UPDATE audit_chains SET sequence = ${head.sequence}, hash = ${head.hash} WHERE account_id = ${accountId}`;
  });
}
