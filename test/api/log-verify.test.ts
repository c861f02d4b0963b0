import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../control-plane/cli/verify-attestations.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { checkpointText } from '../../shared/log/checkpoint.ts';
import { entryOf, type LoggedHead } from '../../shared/log/entry.ts';
import { leafHash } from '../../shared/log/merkle.ts';
import { renderNote, renderVkey, signatureTypes, signNote } from '../../shared/log/note.ts';
import { renderLogProof } from '../../shared/log/proof.ts';
import { type Api, startApi } from '../support/api.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { logLines } from '../support/witnesses.ts';

let api: Api;
let writer: LogWriter;
const folder = temporaryFolder();
beforeAll(async () => {
  api = await startApi();
  writer = new LogWriter(api.deps, async () => undefined);
});
afterAll(async () => {
  await api.close();
  folder.remove();
});

const file = (name: string, text: string): string => {
  const path = join(folder.path, name);
  writeFileSync(path, text);
  return path;
};

async function verify(exported: string, policy: string, proof?: string) {
  const written: string[] = [];
  const output = { write: (text: string) => void written.push(text) };
  const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  const code = await verifyAttestationsCommand({
    files: [file('records.jsonl', exported)],
    jwks: file('jwks.json', JSON.stringify(jwks)),
    proofs: {
      files: proof === undefined ? [] : [file('record.tlog-proof', proof)],
      policy: file('log.policy', policy),
    },
    ...{ output, errors: output },
  });
  return { code, text: written.join('') };
}

describe('attestations verify --log-policy', () => {
  let checkOnce: () => Promise<string>;
  let policy: string;
  /** Of the same chain: with its first two records, and with all three. */
  let shortened: string;
  let whole: string;
  let proof: string;
  let records: readonly LoggedHead[];

  beforeAll(async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    checkOnce = async () => {
      const body = { passport: passport.jwt, request: { permission_key: 'orders:create' } };
      return (await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body })).body.attestation_id;
    };
    const exported = async () => String((await api.call({ url: '/v1/attestations/export' })).body);
    const ids = [await checkOnce(), await checkOnce()];
    await writer.round(() => false);
    shortened = await exported();
    ids.push(await checkOnce());
    await writer.round(() => false);
    whole = await exported();
    proof = (await api.call({ url: `/v1/attestations/${ids[2]}/proof` })).body;
    policy = `${logLines(api)}quorum none\n`;
    records = await Promise.all(
      ids.map(async (id) => {
        const { chain_id, sequence, hash } = (await api.call({ url: `/v1/attestations/${id}` })).body;
        return { chainId: chain_id, sequence, hash };
      }),
    );
  });

  /** By a log of our own, which has this head alone. */
  const proofOf = (head: LoggedHead) => {
    const signer = chooseEd25519().signer(Buffer.alloc(32, 9));
    const origin = 'a.example/log';
    const text = checkpointText({ origin, size: 1, root: leafHash(entryOf(head)) });
    const checkpoint = renderNote({ text, signatures: [signNote(origin, signer, text)] });
    return {
      proof: renderLogProof({ head, index: 0, hashes: [], checkpoint }),
      policy: `${policy}log ${renderVkey(origin, signatureTypes.ed25519, signer.publicKey)}\n`,
    };
  };

  it('takes a whole export, by the proof beside it and by those in it', async () => {
    const { code, text } = await verify(whole, policy, proof);
    expect([code, text]).toEqual([0, expect.stringContaining('The log has 1 of these chains')]);
    expect(text).toContain('up to record 3 is in the log');
  });

  it('refuses an export whose end was cut off, although it verifies by itself', async () => {
    expect((await verify(shortened, policy)).code).toBe(0);
    const { code, text } = await verify(shortened, policy, proof);
    expect([code, text]).toEqual([5, expect.stringContaining('the log has record 3 of chain')]);
    expect(text).toContain('it was cut off');
  });

  it('refuses a record that is not the one that the log has', async () => {
    const [, second] = records;
    const same = proofOf(second as LoggedHead);
    expect((await verify(whole, same.policy, same.proof)).code).toBe(0);
    const other = proofOf({ ...(second as LoggedHead), hash: `sha256:${'0'.repeat(64)}` });
    const { code, text } = await verify(whole, other.policy, other.proof);
    expect([code, text]).toEqual([5, expect.stringContaining('is not the one that the log has')]);
  });

  it('refuses a chain header whose proof the policy does not accept', async () => {
    const stranger = proofOf(records[0] as LoggedHead).policy.replace(logLines(api), '');
    const { code, text } = await verify(whole, stranger);
    expect([code, text]).toEqual([5, expect.stringContaining('signed by no log that the policy names')]);
  });
});
