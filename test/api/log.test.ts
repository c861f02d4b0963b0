import { beforeAll, describe, expect, it } from 'vitest';
import { signCheckpoint } from '../../control-plane/log/checkpoint-round.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { type LogTree, publish } from '../../control-plane/log/log-store.ts';
import { sha256Bytes } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import { parseSignedCheckpoint } from '../../shared/log/checkpoint.ts';
import { entryOf } from '../../shared/log/entry.ts';
import { emptyRoot, leafHash, rootHash } from '../../shared/log/merkle.ts';
import { noteKeyId, parseNote, signatureTypes } from '../../shared/log/note.ts';
import { parseLogProof, verifyLogProof } from '../../shared/log/proof.ts';
import { hashesIn, readFromTiles, widthOf } from '../../shared/log/tiles.ts';
import { parseWitnessPolicy } from '../../shared/log/witness-policy.ts';
import { until } from '../support/base/until.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { append, exportText, linesOf, liveOwner, newRecord, verifyText } from '../support/service/exports.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi } from '../support/service/use-api.ts';
import { logLines } from '../support/service/witnesses.ts';

const api = useApi(startOwnApi);
let writer: LogWriter;
beforeAll(() => {
  writer = new LogWriter(api.deps, async () => undefined);
});

const round = (of = writer) => of.round(() => false);
const get = async (path: string) => {
  const { statusCode, headers, rawPayload } = await api.app.inject({ method: 'GET', url: path });
  return { status: statusCode, headers, bytes: rawPayload };
};
/** As the next reader sees it: the route keeps a checkpoint for a moment. */
async function checkpoint() {
  const [row] = await api.deps.sql<{ published: string }[]>`
    SELECT published FROM log_trees ORDER BY log DESC LIMIT 1`;
  return must(parseSignedCheckpoint(must(row, 'there is a log').published), 'a checkpoint is served');
}
const policy = () => parseWitnessPolicy(api.deps.ed25519, Buffer.from(`${logLines(api)}quorum none\n`));

async function decide(count = 1) {
  const gate = await api.createGate();
  const passport = await api.issuePassport();
  const answers = [];
  for (let i = 0; i < count; i++) {
    const { body } = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
    });
    answers.push(body);
  }
  return { passport, answers };
}

describe('the log', () => {
  it('has no checkpoint before its first, and then one with keys, audit and policies', async () => {
    expect((await get('/log/checkpoint')).status).toBe(404);
    await api.createGate();
    await round();
    const { checkpoint: first } = await checkpoint();
    expect(first.origin).toBe('127.0.0.1:8080/log');
    const kinds = await api.deps.sql<{ kind: string }[]>`
      SELECT DISTINCT split_part(chain_id, ':', 1) AS kind FROM log_entries ORDER BY kind`;
    expect(kinds.map(({ kind }) => kind)).toEqual(['audit', 'key', 'policy']);
    await round();
    expect((await checkpoint()).checkpoint).toEqual(first);
  });

  it('proves that a record is in it, offline', async () => {
    const { answers, passport } = await decide(3);
    const proofOf = (id: string) => api.call({ url: `/v1/attestations/${id}/proof` });
    const early = await proofOf(answers[0].attestation_id);
    expect([early.status, early.body.error?.code]).toEqual([409, 'proof_not_ready']);
    await round();
    for (const { attestation_id } of answers) {
      const { status, body, headers } = await proofOf(attestation_id);
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('text/plain; charset=utf-8');
      const verdict = verifyLogProof(body, policy());
      // One head for all three: it is the last that is logged.
      const last = (await api.call({ url: `/v1/attestations/${answers[2].attestation_id}` })).body;
      expect(verdict).toMatchObject({
        ...{ kind: 'valid', head: { chainId: passport.passport_id, sequence: 3, hash: last.hash } },
      });
    }
    expect((await proofOf('att_00000000000000000000000000')).status).toBe(404);
    const other = await api.createAccount();
    const foreign = await api.call({
      url: `/v1/attestations/${answers[0].attestation_id}/proof`,
      key: other.key,
    });
    expect(foreign.status).toBe(404);
  });

  it('is served as tiles that give the root, and bundles that give the tiles', async () => {
    await decide();
    await round();
    // It is kept for a moment.
    const { size: published } = (await checkpoint()).checkpoint;
    let served = '';
    await until(
      async () => {
        served = (await get('/log/checkpoint')).bytes.toString();
        return parseSignedCheckpoint(served)?.checkpoint.size === published;
      },
      { what: 'the checkpoint to be served' },
    );
    const { size, root } = must(parseSignedCheckpoint(served), 'a checkpoint is served').checkpoint;
    const width = widthOf({ level: 0, number: 0 }, size);
    expect(width).toBe(size);
    const tile = await get(`/log/tile/0/000.p/${width}`);
    expect(tile.status).toBe(200);
    expect(tile.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(tile.headers['content-type']).toBe('application/octet-stream');
    expect(hashesIn(tile.bytes)).toBe(width);
    const ofTiles = readFromTiles(() => tile.bytes);
    expect(Buffer.from(rootHash(size, ofTiles))).toEqual(Buffer.from(root));
    const bundle = await get(`/log/tile/entries/000.p/${width}`);
    expect(bundle.bytes).toHaveLength(width * 34);
    for (let at = 0; at < width; at++) {
      expect(bundle.bytes.readUInt16BE(at * 34)).toBe(32);
      const leaf = leafHash(bundle.bytes.subarray(at * 34 + 2, (at + 1) * 34));
      expect(Buffer.from(leaf)).toEqual(tile.bytes.subarray(at * 32, (at + 1) * 32));
    }
    expect((await get('/log/tile/0/000.p/1')).bytes).toEqual(tile.bytes.subarray(0, 32));
    expect((await get('/log/checkpoint')).headers['cache-control']).toBe('no-store');
    for (const path of [
      `0/000.p/${width + 1}`,
      '0/000',
      '1/000.p/1',
      '0/000.p/0',
      '00/000.p/1',
      '0/x000/000.p/1',
      'entries/001.p/1',
    ])
      expect([path, (await get(`/log/tile/${path}`)).status]).toEqual([path, 404]);
  });

  it('hashes an entry of exactly these bytes', () => {
    const head = { chainId: 'pass_x', sequence: 12, hash: `sha256:${'0'.repeat(64)}` };
    const text = `agent-trust.log.v1\npass_x\n12\nsha256:${'0'.repeat(64)}\n`;
    expect(entryOf(head)).toEqual(sha256Bytes(text));
  });

  it('goes on under the old key and the new one after a rotation, and logs both', async () => {
    const before = policy();
    const before_ = await checkpoint();
    const rotated = await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'log' } });
    expect(rotated.status).toBe(201);
    const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body.keys;
    expect(jwks.filter((key: { purpose: string }) => key.purpose === 'log')).toHaveLength(2);
    // Sidecars are told of no key of the log.
    const told = await api.changes('global');
    expect(told.filter(({ body }) => body.purpose === 'log')).toEqual([]);
    api.advance(61_000);
    const { answers } = await decide();
    await round();
    const { checkpoint: after, note } = await checkpoint();
    expect(after.size).toBeGreaterThan(before_.checkpoint.size);
    expect(note.signatures).toHaveLength(2);
    const { body } = await api.call({ url: `/v1/attestations/${answers[0].attestation_id}/proof` });
    expect(verifyLogProof(body, before).kind).toBe('valid');
    expect(verifyLogProof(body, policy()).kind).toBe('valid');
    expect(parseLogProof(body)?.signed.checkpoint.size).toBe(after.size);
  });

  it('signs with a bounded number of keys, however many there were', async () => {
    const [key] = api.deps.signingKeys.vouching('log');
    const keys = Array.from({ length: 100 }, (_, at) => ({
      ...must(key, 'a key'),
      signer: api.deps.ed25519.signer(Buffer.alloc(32, at)),
    }));
    const signingKeys = { ...api.deps.signingKeys, vouching: () => keys };
    const note = parseNote(
      signCheckpoint({ signingKeys }, { origin: 'a.example/log', size: 0, root: emptyRoot }),
    );
    const signedBy = [keys[0], ...keys.slice(-7)].map((key) =>
      noteKeyId('a.example/log', signatureTypes.ed25519, must(key, 'a key').signer.publicKey),
    );
    expect(note?.signatures.map(({ keyId }) => keyId)).toEqual(signedBy);
  });

  it('takes chains that all change at once in steps, and publishes meanwhile', async () => {
    const chains = 6_000;
    const { size } = (await checkpoint()).checkpoint;
    await api.deps.sql`
      INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
      SELECT 'pass_many_' || n, account_id, 'live', 1, 'sha256:' || encode(sha256(n::text::bytea), 'hex')
      FROM accounts, generate_series(1, ${chains}::int) AS n WHERE is_operator`;
    await round();
    expect((await checkpoint()).checkpoint.size).toBe(size + chains);
    // A pass in which nothing changed appends nothing.
    await round();
    expect((await checkpoint()).checkpoint.size).toBe(size + chains);
    const [tiles] = await api.deps.sql<{ count: number }[]>`
      SELECT count(*) AS count FROM log_tiles WHERE level = 0 AND length(hashes) = ${256 * 32}`;
    expect(tiles?.count).toBe(Math.floor((size + chains) / 256));
  });

  it('has one writer at a time, and never goes back', async () => {
    const second = await secondControlPlane(api);
    const other = new LogWriter(second.deps, async () => undefined);
    // However long the tests before took, it is the writer now.
    await decide();
    await round();
    const { size } = (await checkpoint()).checkpoint;
    await api.createGate();
    await round(other);
    expect((await checkpoint()).checkpoint.size).toBe(size);
    await api.deps.sql`UPDATE log_trees SET writer_until_ms = 0`;
    await round(other);
    const taken = (await checkpoint()).checkpoint.size;
    expect(taken).toBeGreaterThan(size);
    await decide();
    await round();
    expect((await checkpoint()).checkpoint.size).toBe(taken);
    await api.deps.sql`UPDATE log_trees SET writer_until_ms = 0`;
    await Promise.all([round(), round(other)]);
    expect((await checkpoint()).checkpoint.size).toBeGreaterThan(taken);
    for (const back of [
      api.deps.sql`UPDATE log_trees SET size = size - 1, published_size = 0`,
      api.deps.sql`UPDATE log_trees SET published_size = published_size - 1`,
      api.deps.sql`UPDATE log_trees SET root = '\\x00'::bytea`,
    ])
      await expect(back).rejects.toThrow('does not go back');
    await second.close();
  });

  it('publishes no tree that the database does not have', async () => {
    const { sql } = api.deps;
    await sql`UPDATE log_trees SET writer_until_ms = 0`;
    await round();
    const { checkpoint: before } = await checkpoint();
    const [tree] = await sql<LogTree[]>`SELECT log, origin, size, root, signed FROM log_trees`;
    const known = must(tree, 'there is a log');
    // As a replica that asked witnesses while the database went back, or another replica wrote.
    for (const other of [
      { ...known, root: Buffer.alloc(32, 1) },
      { ...known, size: known.size - 1 },
    ])
      await publish(sql, { tree: other, note: 'of another tree', isWitnessed: true });
    expect((await checkpoint()).checkpoint).toEqual(before);
  });

  /** What stands in the database cannot be written on, or is not what was signed. */
  const expectUntouched = async (fault: object): Promise<void> => {
    const { checkpoint: before } = await checkpoint();
    const { answers } = await decide();
    expect(answers[0].decision).toBe('PERMIT');
    await expect(round()).rejects.toMatchObject(fault);
    expect((await decide()).answers[0].decision).toBe('PERMIT');
    expect((await checkpoint()).checkpoint).toEqual(before);
  };
  const expectGrowth = async (): Promise<void> => {
    const { size } = (await checkpoint()).checkpoint;
    const { answers } = await decide();
    await round();
    expect((await checkpoint()).checkpoint.size).toBeGreaterThan(size);
    const { status } = await api.call({ url: `/v1/attestations/${answers[0].attestation_id}/proof` });
    expect(status).toBe(200);
  };

  it.each([
    [
      'changed',
      (sql: Api['deps']['sql']) =>
        sql`UPDATE log_tiles SET hashes = set_byte(hashes, 0, 255 - get_byte(hashes, 0))`,
    ],
    ['gone', (sql: Api['deps']['sql']) => sql`DELETE FROM log_tiles`],
    ['cut', (sql: Api['deps']['sql']) => sql`UPDATE log_tiles SET hashes = substr(hashes, 1, 32)`],
  ])('signs nothing over tiles that are %s, and goes on once they are back', async (_what, damage) => {
    const { sql } = api.deps;
    await decide();
    await round();
    await sql`CREATE TABLE whole_tiles AS SELECT * FROM log_tiles`;
    await damage(sql);
    await expectUntouched({
      name: 'LogDamaged',
      message: expect.stringContaining('restore table log_tiles'),
    });
    await sql`DELETE FROM log_tiles`;
    await sql`INSERT INTO log_tiles SELECT * FROM whole_tiles`;
    await sql`DROP TABLE whole_tiles`;
    await expectGrowth();
  });

  it('stays as it is while the disk of the database is full, and goes on when it is not', async () => {
    const { sql } = api.deps;
    await decide();
    await round();
    await sql.unsafe(`
      CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$;
      CREATE TRIGGER disk_full BEFORE INSERT ON log_entries EXECUTE FUNCTION disk_full()`);
    await expectUntouched({ code: '53100' });
    await sql.unsafe('DROP TRIGGER disk_full ON log_entries; DROP FUNCTION disk_full()');
    await expectGrowth();
  });
});

/**
 * Somebody who can write to the database, and has no signing key, changes a chain together with its head row.
 */
describe('an export beside the log', () => {
  const number = (chain: string) => api.deps.sql`(SELECT number FROM chains WHERE chain_id = ${chain})`;
  const setBack = async (chain: string) => {
    const { sql } = api.deps;
    await sql`
      UPDATE chains SET sequence = 2, hash = (
        SELECT 'sha256:' || encode(previous_hash, 'hex') FROM records
        WHERE chain = number AND records.sequence = 3)
      WHERE chain_id = ${chain}`;
    await sql`DELETE FROM records WHERE chain = ${number(chain)} AND sequence = 3`;
  };
  const remove = async (chain: string) => {
    await api.deps.sql`DELETE FROM records WHERE chain = ${number(chain)}`;
    await api.deps.sql`DELETE FROM chains WHERE chain_id = ${chain}`;
  };
  const broken = async (key: string, query = '') =>
    linesOf(await exportText(api, query, key)).at(-1).end.broken ?? null;

  async function chainOf(): Promise<{ key: string; chain: string; more: () => Promise<void> }> {
    const { accountId, key } = await api.createAccount();
    const owner = liveOwner(accountId);
    const { passport_id: chain } = await api.issuePassport({}, key);
    const { gate_id: gateId } = await api.createGate({}, key);
    const about = { passport: { id: chain, owner }, gateId, gateOwner: owner };
    const more = () => append(api, [newRecord(api, about)]);
    for (let i = 0; i < 3; i++) await more();
    await round();
    expect(await broken(key)).toBeNull();
    return { key, chain, more };
  }

  it.each<[string, (chain: string) => Promise<void>, string, number, number]>([
    ['cut at its end with its head row set back', setBack, 'behind_log', 3, 2],
    ['removed with its head row', remove, 'behind_log', 1, 0],
    [
      'given to another mode',
      async (chain) => void (await api.deps.sql`UPDATE chains SET mode = 'test' WHERE chain_id = ${chain}`),
      ...(['owner_differs', 1, 0] as const),
    ],
  ])('names a chain that was %s', async (_what, tamper, fault, sequence, there) => {
    const { key, chain } = await chainOf();
    await tamper(chain);
    const text = await exportText(api, '', key);
    expect(linesOf(text).at(-1).end).toMatchObject({ broken: [{ chain_id: chain, fault, sequence }] });
    expect(linesOf(text).filter(({ chain_id: id }) => id === chain)).toHaveLength(there);
    expect(await verifyText(api, text)).toMatchObject({ kind: 'invalid' });
    // Of the end of time: what was cut off has no time to be asked for.
    expect(await broken(key, '?since=2999-01-01T00:00:00Z')).toEqual([{ chain_id: chain, fault, sequence }]);
  });

  it('names a chain that was given to another account in the exports of both, and shows it to none', async () => {
    const [mine, other] = [await chainOf(), await chainOf()];
    const { sql } = api.deps;
    await sql`
      UPDATE chains SET account_id = (SELECT account_id FROM chains WHERE chain_id = ${other.chain})
      WHERE chain_id = ${mine.chain}`;
    for (const { key } of [mine, other]) {
      expect(await broken(key)).toEqual([{ chain_id: mine.chain, fault: 'owner_differs', sequence: 1 }]);
      const records = linesOf(await exportText(api, '', key)).filter(({ chain_id: id }) => id === mine.chain);
      expect(records).toEqual([]);
    }
  });

  it('names a chain that was cut and has grown again', async () => {
    const { key, chain, more } = await chainOf();
    await setBack(chain);
    for (let i = 0; i < 3; i++) await more();
    const fault = { chain_id: chain, fault: 'log_differs', sequence: 3 };
    expect(await broken(key)).toEqual([fault]);
    await round();
    expect(await broken(key)).toEqual([fault]);
  });

  it.each([
    ['cut at its end', (sequence: number) => sequence - 1],
    ['removed', () => 0],
  ])('names the chain of the audit where it was %s with its head row', async (_what, leftOf) => {
    const { accountId, key } = await api.createAccount();
    for (let i = 0; i < 3; i++) await api.createGate({}, key);
    await round();
    const { sql } = api.deps;
    const end = async () => {
      const { body } = await api.call({ url: '/v1/audit/export', key });
      return linesOf(String(body)).at(-1).end;
    };
    const { entries, broken: before } = await end();
    expect(before).toBeUndefined();
    const left = leftOf(entries);
    const own = sql`account_id = ${accountId} AND mode = 'live'`;
    await sql`DELETE FROM audit_entries WHERE ${own} AND sequence > ${left}`;
    await (left === 0
      ? sql`DELETE FROM audit_chains WHERE ${own}`
      : sql`UPDATE audit_chains SET sequence = ${left}, hash = (
          SELECT hash FROM audit_entries WHERE ${own} AND sequence = ${left}) WHERE ${own}`);
    const named = { chain_id: accountId, fault: 'behind_log', sequence: left + 1 };
    expect(await end()).toEqual({ entries: left, broken: [named] });
  });
});
