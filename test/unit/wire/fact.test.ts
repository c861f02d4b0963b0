import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { commitmentOf as commitmentOfClient } from '../../../clients/node/src/verify/facts.ts';
import { sha256Hex } from '../../../shared/crypto/content-hash.ts';
import { commitmentOf, openingOf, renderFact } from '../../../shared/wire/evidence/fact.ts';
import { readFacts } from '../../../shared/wire/sync/shipped-facts.ts';

/** Commitments to values (docs/facts.md), whose page has these vectors. */
const salt = 'AAECAwQFBgcICQoLDA0ODw';
const page = readFileSync(new URL('../../../docs/facts.md', import.meta.url), 'utf8');
const vectors: readonly (readonly [path: string, value: unknown, form: string])[] = [
  ['/request/path', '/workspace/a.txt', '"/workspace/a.txt"'],
  ['/request/rows', 100, '100'],
  ['/claims/groups', ['b', 'a'], '["b","a"]'],
  ['/request/body', { b: 1.5, a: null }, '{"a":null,"b":1.5}'],
  ['/request/note', null, 'null'],
  ['/request/missing', undefined, ''],
  ['/request/text', 'ä'.repeat(600), `sha256:${sha256Hex(`"${'ä'.repeat(600)}"`)}`],
];

describe('a commitment', () => {
  it.each(vectors)('is the hash of salt, path and form of %s', async (path, value, form) => {
    const { commitment, opening } = openingOf(path, salt, value);
    expect(commitment).toBe(`sha256:${sha256Hex(`agent-trust.fact.v1:${salt}:${path}:${form}`)}`);
    expect(page).toContain(commitment);
    expect(commitmentOf(JSON.parse(JSON.stringify(opening)))).toBe(commitment);
    const shown = renderFact(opening);
    expect(shown.commitment).toBe(commitment);
    expect(Object.keys(shown)).toEqual(Object.keys(shown).sort());
    const hash = (text: string) => `sha256:${sha256Hex(text)}`;
    expect(await commitmentOfClient(shown, hash)).toBe(commitment);
  });

  it('is to a longer value by its hash, which alone is kept', () => {
    const kept = 'x'.repeat(1_022);
    expect(openingOf('/request/a', salt, kept).opening).toEqual({ path: '/request/a', salt, value: kept });
    const { commitment, opening } = openingOf('/request/a', salt, `${kept}x`);
    expect(opening).toEqual({
      ...{ hashed: true, path: '/request/a', salt },
      value: `sha256:${sha256Hex(`"${kept}x"`)}`,
    });
    expect(renderFact(opening)).toEqual({ commitment, ...opening });
    expect(commitmentOf({ path: '/request/a', salt, value: `${kept}x` })).toBeNull();
  });

  it('tells absent, null and empty apart', () => {
    const all = [undefined, null, '', {}, []].map((value) => openingOf('/request/a', salt, value).commitment);
    expect(new Set(all).size).toBe(5);
    expect(renderFact({ path: '/request/a', salt })).toMatchObject({ absent: true, value: null });
    expect(renderFact({ path: '/request/a', salt, value: null })).not.toHaveProperty('absent');
  });

  it('is to nothing that has no RFC 8785 form', () => {
    let deep: unknown = 0;
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    for (const value of ['\ud800', deep])
      expect(commitmentOf({ path: '/request/a', salt, value })).toBeNull();
    expect(commitmentOf({ path: '/request/a', salt, value: 'x', hashed: true })).toBeNull();
    expect(commitmentOf({ path: '/request/a', salt, hashed: true })).toBeNull();
  });
});

describe('facts of a sidecar', () => {
  const { commitment, opening } = openingOf('/request/rows', salt, 100);
  const user = openingOf('/user', salt, 'ada');
  const none = { conditions: null, external: null, permit_token: null, shadow: null, units: null };
  const carried = {
    ...{ ...none, facts: [{ commitment, path: '/request/rows' }], user: user.commitment },
  };

  it('open commitments of the record', () => {
    const shipped = [opening, { ...user.opening, of: 'both' }];
    expect(readFacts(shipped, carried)).toEqual(shipped);
  });

  it.each([
    ['another value', [{ ...opening, value: 101 }]],
    ['another salt', [{ ...opening, salt: 'AAECAwQFBgcICQoLDA0ODg' }]],
    ['a salt in another spelling', [{ ...opening, salt: 'AAECAwQFBgcICQoLDA0ODx' }]],
    ['a path that the record does not name', [openingOf('/request/other', salt, 1).opening]],
    ['one twice', [opening, opening]],
    ['an owner that is none', [{ ...opening, of: 'gate' }]],
    ['an unknown member', [{ ...opening, more: 1 }]],
    ['none', []],
    ['no list', opening],
    ['no objects', [1]],
    ['too many', Array.from({ length: 34 }, () => opening)],
  ])('are refused with %s', (_, shipped) => {
    expect(readFacts(shipped, carried)).toBeNull();
  });

  it('are refused without commitments', () => {
    expect(readFacts([opening], null)).toBeNull();
  });
});
