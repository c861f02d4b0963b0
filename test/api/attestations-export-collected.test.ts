import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { isStatement } from '../support/data/in-toto.ts';
import { ocsfFaults } from '../support/data/ocsf.ts';
import { sigstoreFault } from '../support/data/sigstore.ts';
import { startOwnApi } from '../support/service/api.ts';
import { append, exportText, linesOf, newRecord, ownerOf } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/** The export in the formats that others collect. */
const api = useApi(startOwnApi);
let owner: Owner;
beforeAll(async () => {
  owner = await ownerOf(api);
});

// biome-ignore lint/suspicious/noExplicitAny: an export is inspected member by member
type Json = any;

const findings = [{ pointer: '/ä/😀/"\u2028', type: 'email' }];
const changes: readonly Partial<AttestationRecord>[] = [
  { pii: findings },
  { decision: 'BLOCK', reason: 'spend_limit_exceeded' },
  {
    decision: 'SUSPEND',
    reason: null,
    resolution: 'approved',
    refersTo: 'appr_01m7wkzqr053fkmyz8p8wbdmhd' as never,
  },
  { resolution: 'settled', refersTo: 'att_01m7w73a5pffzt5jwz6hbpmzxj' as never },
  { permissionKey: null, amountMicroUsd: null, constraintsEvaluated: [] },
];

/** An account of its own: one record of each kind in the chain of a passport, and `refused` of a gate. */
async function accountWithRecords({ times = 1, refused = 1 } = {}) {
  const { accountId, key } = await api.createAccount();
  const own: Owner = { accountId: accountId as Owner['accountId'], mode: 'live' };
  const passport = { id: (await api.issuePassport({}, key)).passport_id as string, owner: own };
  const gateId = (await api.createGate({}, key)).gate_id as string;
  const about = { passport, gateId, gateOwner: own };
  const rounds = Array.from({ length: times }, () => changes).flat();
  await append(api, [
    ...rounds.map((change) => newRecord(api, about, change)),
    ...Array.from({ length: refused }, () => newRecord(api, { ...about, passport: null })),
  ]);
  return { key, passportId: passport.id, gateId, records: rounds.length + refused };
}

const recordsOf = async (key: string): Promise<Json[]> =>
  linesOf(await exportText(api, '', key)).filter((line) => 'hash' in line);
const jwks = async (): Promise<Json> => (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
const statementOf = ({ payload }: Json): Json => JSON.parse(Buffer.from(payload, 'base64').toString('utf8'));

describe('an export as dsse', () => {
  const exported = async (key: string) => {
    const text = await exportText(api, '?format=dsse', key);
    const envelopes = linesOf(text);
    const statements = envelopes.map(statementOf);
    return { text, envelopes, records: statements.slice(0, -1), end: statements.at(-1) };
  };

  it('is a signed in-toto statement for each record, and one about the file', async () => {
    const { key, records } = await accountWithRecords({ times: 10, refused: 3 });
    const { text, envelopes, records: statements, end } = await exported(key);
    const keys = await jwks();
    expect(envelopes.map((each) => sigstoreFault(each, keys)).filter((fault) => fault !== null)).toEqual([]);
    expect(envelopes.every((each) => each.payloadType === 'application/vnd.in-toto+json')).toBe(true);
    expect([...statements, end].every(isStatement)).toBe(true);

    expect(statements.map(({ predicate }) => predicate)).toEqual(await recordsOf(key));
    expect(statements).toHaveLength(records);
    for (const { predicate, predicateType, subject } of statements) {
      expect(predicateType).toBe('urn:agent-trust:attestation:v1');
      const { hash, id } = predicate;
      expect(subject).toEqual([{ name: id, digest: { sha256: hash.replace('sha256:', '') } }]);
    }

    const before = text.slice(0, text.trimEnd().lastIndexOf('\n') + 1);
    expect(end.predicateType).toBe('urn:agent-trust:attestation-export-end:v1');
    expect(end.subject[0].digest.sha256).toBe(createHash('sha256').update(before).digest('hex'));
    expect(end.predicate).toMatchObject({ envelopes: records, since: null });
    expect(end.predicate.broken).toBeUndefined();
  });

  it('signs no record that the service did not sign, whoever wrote it into the database', async () => {
    const { key, passportId } = await accountWithRecords();
    const { sql } = api.deps;
    const whole = await recordsOf(key);
    const ofPassport = whole.filter(({ chain_id }) => chain_id === passportId);
    const chain = sql`SELECT number FROM chains WHERE chain_id = ${passportId}`;
    const envelopesFor = async () => {
      const { records, end } = await exported(key);
      const own = records.filter(({ predicate }) => predicate.chain_id === passportId);
      return { sequences: own.map(({ predicate }) => predicate.sequence), broken: end.predicate.broken };
    };
    expect(ofPassport).toHaveLength(changes.length);

    // Its hash changes with it, so the next record does not fit, and its signature does not either.
    await sql`UPDATE records SET amount_micro_usd = 1 WHERE chain = (${chain}) AND sequence = 2`;
    expect(await envelopesFor()).toEqual({
      sequences: [1],
      broken: [
        { chain_id: passportId, fault: 'link_broken', sequence: 3 },
        { chain_id: passportId, fault: 'record_invalid', sequence: 2 },
      ],
    });
    await sql`
      UPDATE records SET amount_micro_usd = ${ofPassport[1].amount_micro_usd}
      WHERE chain = (${chain}) AND sequence = 2`;
    expect(await envelopesFor()).toEqual({ sequences: [1, 2, 3, 4, 5], broken: undefined });

    // A signature of the service, and of another record.
    await sql`
      UPDATE records SET signature = (SELECT signature FROM records WHERE chain = (${chain}) AND sequence = 1)
      WHERE chain = (${chain}) AND sequence = 3`;
    expect(await envelopesFor()).toEqual({
      sequences: [1, 2, 4, 5],
      broken: [{ chain_id: passportId, fault: 'record_invalid', sequence: 3 }],
    });
  });

  it('lends a new key to nothing that a compromised one signed', async () => {
    const { key, passportId, gateId } = await accountWithRecords();
    const before = await recordsOf(key);
    const rotate = { purpose: 'attestation', compromised: true };
    expect((await api.call({ url: '/v1/signing-keys/rotate', body: rotate })).status).toBe(201);
    await append(api, [newRecord(api, { passport: { id: passportId, owner }, gateId, gateOwner: owner })]);
    const { records, envelopes, end } = await exported(key);
    expect(records).toHaveLength(1);
    expect(before).toHaveLength(changes.length + 1);
    expect(end.predicate.broken.map(({ fault }: Json) => fault)).toEqual([
      'key_compromised',
      'key_compromised',
    ]);
    const keys = await jwks();
    expect(envelopes.map((each) => sigstoreFault(each, keys))).toEqual([null, null]);
  });

  it('names a chain that is not whole', async () => {
    const { key, passportId } = await accountWithRecords();
    await api.deps.sql`
      DELETE FROM records WHERE sequence = 5 AND chain = (SELECT number FROM chains WHERE chain_id = ${passportId})`;
    const { end } = await exported(key);
    expect(end.predicate.broken).toEqual([{ chain_id: passportId, fault: 'missing_at_end', sequence: 5 }]);
  });
});

describe('an export as ocsf', () => {
  const exported = async (key: string): Promise<Json[]> =>
    linesOf(await exportText(api, '?format=ocsf', key));

  it('is an event of class API Activity for each record, with the record in it', async () => {
    const { key, passportId, gateId } = await accountWithRecords({ times: 2, refused: 2 });
    const events = await exported(key);
    expect(events.flatMap(ocsfFaults)).toEqual([]);
    expect(events.map(({ unmapped }) => unmapped)).toEqual(await recordsOf(key));
    for (const event of events) {
      expect(event.time).toBe(Date.parse(event.unmapped.timestamp));
      expect(event.metadata).toMatchObject({ version: '1.8.0', uid: event.unmapped.id });
    }
    const [permitted, blocked, , settled] = events.filter(({ actor }) => actor.app_uid === passportId);
    expect(permitted).toMatchObject({ disposition_id: 1, action_id: 1, status_id: 1, severity_id: 1 });
    expect(permitted.resources).toEqual([{ uid: gateId, type: 'gate', role: 'Target', role_id: 1 }]);
    expect(blocked).toMatchObject({ disposition_id: 2, action_id: 2, status_id: 2, severity_id: 2 });
    expect(blocked.status_code).toBe('spend_limit_exceeded');
    expect(settled).toMatchObject({ disposition_id: 99, disposition: 'Settled', activity_name: 'Settled' });
    expect(settled.metadata.correlation_uid).toBe('att_01m7w73a5pffzt5jwz6hbpmzxj');
    const refused = events.find(({ actor }) => actor.app_name === 'unverified');
    expect(refused).toMatchObject({ disposition_id: 2, src_endpoint: { name: 'unknown' } });
  });

  it('ends with an event for each chain that is not whole', async () => {
    const { key, passportId } = await accountWithRecords();
    await api.deps.sql`
      DELETE FROM records WHERE sequence = 1 AND chain = (SELECT number FROM chains WHERE chain_id = ${passportId})`;
    const events = await exported(key);
    expect(events.flatMap(ocsfFaults)).toEqual([]);
    expect(events.at(-1)).toMatchObject({
      class_uid: 0,
      severity_id: 5,
      unmapped: { chain_id: passportId, fault: 'missing_at_begin', sequence: 1 },
    });
  });
});
