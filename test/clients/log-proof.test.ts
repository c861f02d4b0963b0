import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyLogProof as byClient } from '../../clients/node/src/verify.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { parseJwks, thumbprint } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import { checkpointText } from '../../shared/log/checkpoint.ts';
import { cosign } from '../../shared/log/cosignature.ts';
import { entryOf } from '../../shared/log/entry.ts';
import { inclusionRanges, leafHash, rangeHash, rootHash } from '../../shared/log/merkle.ts';
import { renderNote, renderVkey, signNote } from '../../shared/log/note.ts';
import { renderLogProof, verifyLogProof } from '../../shared/log/proof.ts';
import { grow, readFromTiles } from '../../shared/log/tiles.ts';
import { parseWitnessPolicy, WitnessPolicyError } from '../../shared/log/witness-policy.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const ed25519 = chooseEd25519();
const signer = (fill: number) => ed25519.signer(Buffer.alloc(32, fill));
const origin = 'trust.example.com/log';
/** From then on the log has its key. */
const nbfS = 1_780_000_000;
const x = Buffer.from(signer(1).publicKey).toString('base64url');
const jwk = { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid: thumbprint(signer(1).publicKey), x };
const jwks = { keys: [{ ...jwk, purpose: 'log', nbf: nbfS, retired_at: null, compromised: false }] };
const nowS = Math.floor(Date.now() / 1_000);
const heads = Array.from({ length: 300 }, (_, index) => ({
  ...{ chainId: `pass_${index}`, sequence: index + 1, hash: `sha256:${String(index).padStart(64, '0')}` },
}));

/** The proof of an entry in a tree of this size, signed by the log and cosigned by these witnesses. */
function proofOf(
  index: number,
  size: number,
  by: readonly number[] = [11, 12, 13],
  atS: (fill: number) => number = () => nbfS,
): string {
  const { changed } = grow(
    [],
    0,
    heads.slice(0, size).map((head) => leafHash(entryOf(head))),
  );
  const read = readFromTiles(({ level, number }) =>
    must(changed.find((each) => each.level === level && each.number === number)?.hashes, 'a tile'),
  );
  const text = checkpointText({ origin, size, root: rootHash(size, read) });
  const cosigned = by.map((fill) => cosign(`w${fill}.example`, signer(fill), text, atS(fill)));
  return renderLogProof({
    head: must(heads[index], 'a head'),
    index,
    hashes: inclusionRanges(index, { from: 0, to: size }).map((range) => rangeHash(range, read)),
    checkpoint: renderNote({ text, signatures: [signNote(origin, signer(1), text), ...cosigned] }),
  });
}
const witness = (fill: number) =>
  `witness W${fill} ${renderVkey(`w${fill}.example`, 4, signer(fill).publicKey)}\n`;
const log = `log ${renderVkey(origin, 1, signer(1).publicKey)}\n`;
/** So many more groups, one inside of the other. */
const groups = (more: number): string =>
  policy.replace(
    'quorum two',
    `${Array.from({ length: more }, (_, at) => `group g${at} any ${at === 0 ? 'two' : `g${at - 1}`}\n`).join('')}quorum g${more - 1}`,
  );
const policy = `# ours\n${log}${witness(11)}${witness(12)}${witness(13)}group two 2 W11 W12 W13\nquorum two\n`;

const good = proofOf(5, 9);
const line = (proof: string, at: number, text: string) => proof.split('\n').with(at, text).join('\n');
const at = (atS: number, fills = [11, 12, 13]) =>
  proofOf(5, 9, undefined, (fill) => (fills.includes(fill) ? atS : nbfS));
const cases: Readonly<
  Record<string, readonly [proof: string, policy: string, isValid: boolean, jwks?: typeof jwks]>
> = {
  'a proof': [good, policy, true],
  'of the first of a whole tile': [proofOf(0, 256), policy, true],
  'of the last of two tiles': [proofOf(299, 300), policy, true],
  'of a tree of one': [proofOf(0, 1), policy, true],
  'with two of three witnesses': [proofOf(5, 9, [11, 13]), policy, true],
  'with one of three': [proofOf(5, 9, [12]), policy, false],
  'without witnesses, where none is asked for': [proofOf(5, 9, []), `${log}quorum none\n`, true],
  'of a log that the policy does not name': [good, policy.replace(log, ''), false],
  'with the key of another log': [
    good,
    policy.replace(log, `log ${renderVkey('other.example/log', 1, signer(1).publicKey)}\n`),
    false,
  ],
  'of another place': [good.replace('index 5', 'index 4'), policy, false],
  'of a place after the end': [good.replace('index 5', 'index 9'), policy, false],
  'of another head': [line(good, 1, must(proofOf(4, 9).split('\n')[1], 'a line')), policy, false],
  'with another hash in its path': [line(good, 3, must(good.split('\n')[4], 'a line')), policy, false],
  'with a hash more': [
    good.replace('index 5\n', `index 5\n${must(good.split('\n')[4], 'a line')}\n`),
    policy,
    false,
  ],
  'with a hash less': [good.split('\n').toSpliced(3, 1).join('\n'), policy, false],
  'of a larger tree': [good.replace('\n9\n', '\n10\n'), policy, false],
  'with a cosignature of another time': [
    good.replace(/(— w11\.example \S{12})./, (all, start) => `${start}${all.endsWith('A') ? 'B' : 'A'}`),
    policy,
    false,
  ],
  'cosigned when the log had its key': [good, policy, true, jwks],
  'cosigned in 1970': [at(1), policy, false, jwks],
  'cosigned a second before that': [at(nbfS - 1), policy, false, jwks],
  'cosigned by one of three in 1970': [at(1, [12]), policy, true, jwks],
  'cosigned by two of three in 1970': [at(1, [12, 13]), policy, false, jwks],
  'cosigned in 1970, by a log whose key is not known': [at(1), policy, true],
  'cosigned four minutes ahead': [at(nowS + 240), policy, true],
  'cosigned an hour ahead': [at(nowS + 3_600), policy, false],
  'under groups as deep as they may be': [good, groups(31), true],
  'of another version': [good.replace('@v1', '@v2'), policy, false],
  'without its head': [good.split('\n').toSpliced(1, 1).join('\n'), policy, false],
  'of no JSON object': [line(good, 1, `extra ${Buffer.from('[1]').toString('base64')}`), policy, false],
  'cut off': [good.slice(0, -2), policy, false],
  nothing: ['', policy, false],
};

describe('verifiers of proofs of the log', () => {
  const folder = mkdtempSync(join(tmpdir(), 'agent-trust-test-'));
  let byPython: Readonly<Record<string, unknown>>;

  beforeAll(async () => {
    const python = await findDebianProgram('python3');
    writeFileSync(join(folder, 'cases.json'), JSON.stringify(cases));
    const script = `
import json, sys
from agent_trust.log import verify_log_proof
found = {}
for name, (proof, policy, _, *jwks) in json.load(open(sys.argv[1])).items():
    verdict = verify_log_proof(proof, policy, jwks=jwks[0] if jwks else None)
    found[name] = [verdict.chain_id, verdict.sequence, verdict.hash, verdict.size, list(verdict.witnesses), list(verdict.untimely)] if verdict else None
print(json.dumps(found))`;
    const env = { ...process.env, PYTHONPATH: join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' };
    const { stdout } = await run(python, ['-c', script, join(folder, 'cases.json')], { env });
    byPython = JSON.parse(stdout);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(Object.entries(cases))('agree on %s', async (name, [proof, rules, isValid, keys]) => {
    const clock = { nowMs: Date.now(), keys: keys === undefined ? [] : parseJwks(keys) };
    const own = verifyLogProof(proof, parseWitnessPolicy(ed25519, Buffer.from(rules)), clock);
    const ofClient = await byClient(proof, rules, { jwks: keys });
    expect(own.kind === 'valid').toBe(isValid);
    const told = own.kind === 'valid' ? { ...own.head, size: own.size, witnesses: own.witnesses } : null;
    expect(
      ofClient.valid ? { ...ofClient.head, size: ofClient.size, witnesses: ofClient.witnesses } : null,
    ).toEqual(told);
    expect(byPython[name]).toEqual(
      told && [told.chainId, told.sequence, told.hash, told.size, told.witnesses, own.untimely ?? []],
    );
    expect(ofClient.untimely).toEqual(own.untimely);
    if (own.kind === 'invalid' && !ofClient.valid)
      expect(ofClient.fault === 'malformed' ? 'not_a_proof' : ofClient.fault).toBe(own.fault);
  });

  it.each([
    ['without a quorum', policy.replace('quorum two\n', '')],
    ['with an unknown witness', policy.replace('W11 W12 W13', 'W11 W12 W14')],
    ['with a key twice', policy.replace(witness(12), witness(12) + witness(12).replace('W12', 'W14'))],
    ['with too many', policy.replace('two 2', 'two 4')],
    ['with another word', `${policy}and more\n`],
    ['with groups too deep in groups', groups(32)],
    ['with groups so deep that a reader has no stack for them', groups(4_000)],
  ])('refuse a policy %s', async (_what, rules) => {
    await expect(byClient(good, rules)).rejects.toThrow(TypeError);
    expect(() => parseWitnessPolicy(ed25519, Buffer.from(rules))).toThrow(WitnessPolicyError);
    const python = await findDebianProgram('python3');
    const script = 'import sys, agent_trust.log as log; log.verify_log_proof(*sys.argv[1:])';
    const env = { ...process.env, PYTHONPATH: join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' };
    await expect(run(python, ['-c', script, good, rules], { env })).rejects.toThrow('ValueError: policy');
  });
});
