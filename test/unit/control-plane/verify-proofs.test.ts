import { expect, it } from 'vitest';
import { ProofCheck } from '../../../cli/verify/verify-proofs.ts';
import { nobleEd25519 } from '../../../shared/crypto/ed25519-noble.ts';
import { checkpointText } from '../../../shared/log/checkpoint.ts';
import { cosign } from '../../../shared/log/cosignature.ts';
import { entryOf } from '../../../shared/log/entry.ts';
import { leafHash } from '../../../shared/log/merkle.ts';
import { renderNote, renderVkey, signNote } from '../../../shared/log/note.ts';
import { renderLogProof } from '../../../shared/log/proof.ts';

const ed25519 = nobleEd25519();
const signer = (fill: number) => ed25519.signer(Buffer.alloc(32, fill));
const head = { chainId: 'pass_1', sequence: 7, hash: `sha256:${'ab'.repeat(32)}` };
const text = checkpointText({ origin: 'example.com/log', size: 1, root: leafHash(entryOf(head)) });
const proofAt = (...times: readonly number[]) =>
  renderLogProof({
    ...{ head, index: 0, hashes: [] },
    checkpoint: renderNote({
      text,
      signatures: [
        signNote('example.com/log', signer(1), text),
        ...times.map((atS, at) => cosign(`w${at}.example`, signer(10 + at), text, atS)),
      ],
    }),
  });
const witness = (at: number) =>
  `witness w${at} ${renderVkey(`w${at}.example`, 4, signer(10 + at).publicKey)}\n`;
const policy =
  `log ${renderVkey('example.com/log', 1, signer(1).publicKey)}\n` +
  `${witness(0)}${witness(1)}group one any w0 w1\nquorum one\n`;

const read = (proof: string) =>
  ProofCheck.read(['a.tlog-proof'], {
    ...{ policy: 'log.policy', ed25519, clock: { nowMs: 1_800_000_000_000, keys: [] } },
    readFile: async (path) => Buffer.from(path === 'log.policy' ? policy : proof),
  });

it.each([
  ['lines that end in CRLF', (proof: string) => proof.replaceAll('\n', '\r\n'), 'CRLF'],
  ['a byte order mark', (proof: string) => `\ufeff${proof}`, 'byte order mark'],
  ['no end of its last line', (proof: string) => proof.slice(0, -1), 'last line'],
  ['nothing in it', () => '', 'last line'],
])('a proof file with %s cannot be used, and is not called false', async (_what, rewrite, named) => {
  const problem = await read(rewrite(proofAt(1_700_000_000)));
  const message = expect.stringMatching(new RegExp(`^a\\.tlog-proof cannot be used: .*${named}`));
  expect(problem).toEqual({ isFalse: false, message });
});

it('another proof that does not hold is false', async () => {
  expect(await read('nonsense\n')).toMatchObject({ isFalse: true });
});

it('a cosignature of another time is named, and does not count', async () => {
  const late = 1_800_003_600;
  expect(await read(proofAt(late))).toEqual({
    isFalse: true,
    message: expect.stringMatching(/lacks the cosignatures.*; not counted, because of its time: that of w0$/),
  });
  const check = await read(proofAt(1_700_000_000, late));
  if (!(check instanceof ProofCheck)) throw new Error('one of two is enough');
  check.see(`{"chain_id":"pass_1","hash":"${head.hash}","sequence":7,"x":1}`);
  expect(check.finish()).toEqual({
    isSound: true,
    text: expect.stringMatching(/cosigned by w0; not counted, because of its time: that of w1\.\n$/),
  });
});
