import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { must } from '../../../shared/errors/assert.ts';
import {
  checkpointText,
  parseCheckpointText,
  parseSignedCheckpoint,
} from '../../../shared/log/checkpoint.ts';
import { cosign, isCosignedBy } from '../../../shared/log/cosignature.ts';
import { entryOf } from '../../../shared/log/entry.ts';
import { leafHash } from '../../../shared/log/merkle.ts';
import {
  isSignedBy,
  parseNote,
  parseVkey,
  renderNote,
  renderSignatureLine,
  renderVkey,
  signNote,
} from '../../../shared/log/note.ts';
import { parseLogProof, renderLogProof, verifyLogProof } from '../../../shared/log/proof.ts';
import {
  isQuorum,
  judgeNote,
  parseWitnessPolicy,
  WitnessPolicyError,
} from '../../../shared/log/witness-policy.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';

const ed25519 = chooseEd25519();
const signer = (fill: number) => ed25519.signer(Buffer.alloc(32, fill));
const vkey = (name: string, fill: number, type: 1 | 4) => renderVkey(name, type, signer(fill).publicKey);
const key = (name: string, fill: number, type: 1 | 4) =>
  must(parseVkey(ed25519, vkey(name, fill, type)), 'a vkey of ours is read');
const policyOf = (text: string) => parseWitnessPolicy(ed25519, Buffer.from(text));

describe('signed notes', () => {
  // The example of C2SP signed-note.
  const note =
    'This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n';
  const foo = must(
    parseVkey(ed25519, 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'),
    'the vkey of the example is read',
  );

  it('verify as in the example of C2SP, and no other text does', () => {
    const parsed = must(parseNote(note), 'the example is a note');
    expect(isSignedBy(parsed, foo)).toBe('signed');
    expect(renderNote(parsed)).toBe(note);
    expect(isSignedBy({ ...parsed, text: 'This is another message.\n' }, foo)).toBe('forged');
    expect(isSignedBy(parsed, { ...foo, name: 'example.com/bar' })).toBe('unsigned');
    expect(renderVkey(foo.name, foo.type, foo.publicKey)).toBe(
      'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
    );
  });

  it('keep empty lines of their text, and end it at the last', () => {
    const parsed = must(
      parseNote(
        'Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n',
      ),
      'the example is a note',
    );
    expect(parsed.text.endsWith('\n\ned è subito sera.\n')).toBe(true);
    expect(parsed.signatures).toHaveLength(1);
  });

  it.each([
    ['without a signature', 'text\n\n'],
    ['without the last newline', note.slice(0, -1)],
    ['with a carriage return', note.replace('\n', '\r\n')],
    ['with a signature that is too short', 'text\n\n— a AAAA\n'],
    ['with 65 signatures', `text\n\n${'— a AAAAAAAAAAAA\n'.repeat(65)}`],
  ])('are refused %s', (_what, text) => {
    expect(parseNote(text)).toBeNull();
  });

  it.each([
    'example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
    'example.com/fo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
    'example.com/foo+530d903a',
    '',
  ])('have no such key: %s', (text) => {
    expect(parseVkey(ed25519, text)).toBeNull();
  });
});

describe('checkpoints', () => {
  it('are read as C2SP shows them, and nothing else is', () => {
    const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';
    const checkpoint = must(parseCheckpointText(text), 'the example is a checkpoint');
    expect(checkpoint.size).toBe(20_852_163);
    expect(checkpointText(checkpoint)).toBe(text);
    expect(parseCheckpointText(`${text}extension\n`)?.size).toBe(20_852_163);
    for (const wrong of [
      text.replace('20852163', '020852163'),
      text.replace('20852163', '-1'),
      text.replace('20852163', '9'.repeat(17)),
      text.replace('2I=', '2I'),
      text.slice(0, -1),
      `${text}\n`,
      text.replace('example.com/behind-the-sofa', ''),
    ])
      expect(parseCheckpointText(wrong), wrong).toBeNull();
  });

  it('are cosigned by witnesses that they know, with the time', () => {
    const text = checkpointText({ origin: 'example.com/log', size: 1, root: leafHash(Buffer.of(1)) });
    const log = signNote('example.com/log', signer(1), text);
    const cosignature = cosign('w.example/1', signer(2), text, 1_679_315_147);
    const signed = must(
      parseSignedCheckpoint(renderNote({ text, signatures: [log, cosignature] })),
      'what was signed is a checkpoint',
    );
    expect(isCosignedBy(signed.note, key('w.example/1', 2, 4))).toBe('signed');
    expect(isCosignedBy(signed.note, key('w.example/2', 2, 4))).toBe('unsigned');
    const later = Buffer.from(cosignature.signature);
    later.writeBigUInt64BE(1_679_315_148n);
    const forged = { ...signed.note, signatures: [{ ...cosignature, signature: later }] };
    expect(isCosignedBy(forged, key('w.example/1', 2, 4))).toBe('forged');
    // The line of C2SP tlog-cosignature has this many bytes.
    expect(renderSignatureLine(cosignature)).toMatch(
      /^— w\.example\/1 [A-Za-z0-9+/]{102}==\n$|^— w\.example\/1 [A-Za-z0-9+/=]{104}\n$/,
    );
  });
});

describe('policies of witnesses', () => {
  const lines = [
    '# who watches',
    `log ${vkey('example.com/log', 1, 1)}`,
    `witness X1 ${vkey('x.example/1', 11, 4)} https://x.example/1/`,
    `\twitness  X2 ${vkey('x.example/2', 12, 4)}`,
    `witness X3 ${vkey('x.example/3', 13, 4)}`,
    `witness Y1 ${vkey('y.example/1', 21, 4)}`,
    `witness Y2 ${vkey('y.example/2', 22, 4)}`,
    'group X 2 X1 X2 X3',
    'group Y any Y1 Y2',
    'group both all X Y',
    'quorum both',
  ];
  const text = `${lines.join('\n')}\n`;

  it('say which witnesses are enough', () => {
    const policy = policyOf(text);
    const enough = (...names: string[]) => isQuorum(policy.quorum, new Set(names));
    expect(policy.witnesses.map(({ url }) => url)).toEqual(['https://x.example/1/', null, null, null, null]);
    expect(enough('X1', 'X2', 'Y1')).toBe(true);
    expect(enough('X1', 'X3', 'Y2')).toBe(true);
    expect(enough('X1', 'Y1', 'Y2')).toBe(false);
    expect(enough('X1', 'X2', 'X3')).toBe(false);
    expect(isQuorum(policyOf('quorum none\n').quorum, new Set())).toBe(true);
  });

  it.each([
    ['a name twice', (all: string[]) => [...all.slice(0, 4), must(all[3], 'X2'), ...all.slice(4)], 'line 5'],
    ['a member of two groups', (all: string[]) => all.toSpliced(9, 0, 'group G any X1'), 'X1 is a member'],
    [
      'a name of a later line',
      (all: string[]) => all.toSpliced(2, 0, 'group G any X1'),
      'no line before defines X1',
    ],
    ['more than there are', (all: string[]) => all.with(7, 'group X 4 X1 X2 X3'), 'line 8'],
    ['no quorum', (all: string[]) => all.slice(0, -1), 'no quorum'],
    ['a log that cosigns', (all: string[]) => all.with(1, `log ${vkey('example.com/log', 1, 4)}`), 'line 2'],
    ['a witness that signs', (all: string[]) => all.with(3, `witness X2 ${vkey('x', 12, 1)}`), 'line 4'],
    ['a URL of a file', (all: string[]) => all.with(3, `${must(all[3], 'X2')} file:///w`), 'line 4'],
  ])('are refused with %s, and name it', (_what, change, named) => {
    expect(() => policyOf(change(lines).join('\n'))).toThrow(WitnessPolicyError);
    expect(() => policyOf(change(lines).join('\n'))).toThrow(named);
  });

  it('judge a checkpoint by its log, its witnesses and forged signatures', () => {
    const policy = policyOf(text);
    const note = checkpointText({ origin: 'example.com/log', size: 1, root: leafHash(Buffer.of(1)) });
    const log = signNote('example.com/log', signer(1), note);
    const by = (name: string, fill: number) => cosign(name, signer(fill), note, 1_679_315_147);
    const enough = [log, by('x.example/1', 11), by('x.example/2', 12), by('y.example/2', 22)];
    expect(judgeNote(policy, { text: note, signatures: enough })).toEqual({
      ...{ isLogSigned: true, isWitnessed: true, witnesses: ['X1', 'X2', 'Y2'], forged: [] },
    });
    expect(judgeNote(policy, { text: note, signatures: enough.slice(1) }).isLogSigned).toBe(false);
    expect(judgeNote(policy, { text: note, signatures: enough.slice(0, 3) }).isWitnessed).toBe(false);
    const forged = { ...by('x.example/3', 13), signature: by('x.example/1', 11).signature };
    expect(judgeNote(policy, { text: note, signatures: [...enough, forged] }).forged).toEqual(['X3']);
  });
});

describe('cosignatures of another time', () => {
  const nbfS = 1_679_315_147;
  const text = checkpointText({ origin: 'example.com/log', size: 1, root: leafHash(Buffer.of(1)) });
  const clock = {
    nowMs: (nbfS + 1_000) * 1_000,
    keys: [
      {
        ...{ purpose: 'log' as const, notBeforeMs: (nbfS * 1_000) as UnixMillis },
        publicKey: Buffer.from(signer(1).publicKey).toString('base64url'),
      },
    ],
  };
  const policy = policyOf(
    `log ${vkey('example.com/log', 1, 1)}\nwitness w1 ${vkey('w1.example', 11, 4)}\n` +
      `witness w2 ${vkey('w2.example', 12, 4)}\ngroup two 2 w1 w2\nquorum two\n`,
  );
  const judged = (one: number, other: number, by: typeof clock | null = clock) => {
    const signatures = [
      signNote('example.com/log', signer(1), text),
      cosign('w1.example', signer(11), text, one),
      cosign('w2.example', signer(12), text, other),
    ];
    return judgeNote(policy, { text, signatures }, by);
  };

  it.each([
    [nbfS, true],
    [nbfS + 1_300, true],
    [1, false],
    [nbfS - 1, false],
    [nbfS + 1_301, false],
    [nbfS + 3_600, false],
  ])('at %i: counts %s', (atS, counts) => {
    const names = { witnesses: counts ? ['w1', 'w2'] : ['w1'], ...(!counts && { untimely: ['w2'] }) };
    expect(judged(nbfS, atS)).toEqual({ isLogSigned: true, forged: [], isWitnessed: counts, ...names });
    expect(judged(nbfS, atS, null).isWitnessed).toBe(true);
  });

  it('are as old as they like where the key of the log is not known, and no further ahead', () => {
    const unknown = { ...clock, keys: [] };
    expect(judged(1, 1, unknown).isWitnessed).toBe(true);
    expect(judged(1, nbfS + 1_301, unknown).untimely).toEqual(['w2']);
  });
});

describe('proofs', () => {
  const head = { chainId: 'pass_1', sequence: 7, hash: `sha256:${'ab'.repeat(32)}` };
  const leaf = leafHash(entryOf(head));
  const text = checkpointText({ origin: 'example.com/log', size: 1, root: leaf });
  const signatures = [signNote('example.com/log', signer(1), text), cosign('w.example', signer(2), text, 5)];
  const proof = renderLogProof({ head, index: 0, hashes: [], checkpoint: renderNote({ text, signatures }) });
  const policy = policyOf(
    `log ${vkey('example.com/log', 1, 1)}\nwitness w ${vkey('w.example', 2, 4)}\nquorum w\n`,
  );

  it('verify offline, and name what is wrong', () => {
    expect(verifyLogProof(proof, policy)).toEqual({ kind: 'valid', head, size: 1, witnesses: ['w'] });
    expect(parseLogProof(proof)?.index).toBe(0);
    const faultOf = (changed: string, by = policy) => {
      const verdict = verifyLogProof(changed, by);
      return verdict.kind === 'invalid' ? verdict.fault : null;
    };
    expect(faultOf(proof.replace('@v1', '@v2'))).toBe('not_a_proof');
    expect(faultOf(proof.replace('index 0', 'index 1'))).toBe('not_included');
    expect(faultOf(proof.replace('index 0\n', `index 0\n${leaf.toString()}\n`))).toBe('not_a_proof');
    const otherHead = renderLogProof({
      head: { ...head, sequence: 8 },
      index: 0,
      hashes: [],
      checkpoint: renderNote({ text, signatures }),
    });
    expect(faultOf(otherHead)).toBe('not_included');
    const alone = renderLogProof({
      ...{ head, index: 0, hashes: [] },
      checkpoint: renderNote({ text, signatures: signatures.slice(0, 1) }),
    });
    expect(faultOf(alone)).toBe('not_witnessed');
    expect(faultOf(proof, policyOf(`log ${vkey('other.example', 1, 1)}\nquorum none\n`))).toBe('unknown_log');
    expect(faultOf(proof.replace('\n1\n', '\n2\n'))).toBe('forged');
  });
});
