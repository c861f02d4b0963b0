import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import { syncVersion } from '../../../shared/wire/sync/sync.ts';
import {
  openEntry,
  parseChangeEntry,
  parseChangesAnswer,
  parseFeedMessage,
  parseShipAnswer,
  parseSnapshot,
  type SealedEntry,
  syncShapes,
} from '../../../shared/wire/sync/sync-schema.ts';
import { apiKeyBody, gateBody, ModelService, numbered, standing } from '../../support/data/model-service.ts';

const service = new ModelService(chooseEd25519());
const entry = service.change('global', standing(1, 'revoked', 5_000));
const text = (value: unknown) => JSON.stringify(value);

describe('a message of a feed', () => {
  it('is an entry or a heartbeat, unchanged', () => {
    const gate = service.change('account', { kind: 'gate.put', body: gateBody(1) });
    const apiKey = service.change('account', { kind: 'api_key.put', body: apiKeyBody(1) });
    const beat = service.heartbeat('account', 7);
    for (const message of [entry, gate, apiKey, beat])
      expect(parseFeedMessage(text(message))).toEqual(message);
    expect(parseChangeEntry(text(beat))).toBeNull();
  });

  it('may have fields that only a later version knows', () => {
    const later = { ...entry, body: { ...entry.body, since: 1 }, region: 'eu' };
    expect(parseFeedMessage(text(later))).toEqual(later);
  });

  it.each([
    ['of a kind that only a later version knows', { ...entry, kind: 'passport.paused' }],
    ['without a body', { ...entry, body: undefined }],
    [
      'with an id in place of its digest',
      { ...entry, body: { ...entry.body, passport: numbered.passport(1) } },
    ],
    ['with a standing that is none', { ...entry, body: { ...entry.body, standing: 'expired' } }],
    ['with a fraction for a revision', { ...entry, revision: 1.5 }],
  ])('is not one %s', (_what, message) => {
    expect(parseFeedMessage(text(message))).toBeNull();
  });

  it('is not text that is no JSON', () => {
    for (const bad of ['', '{', 'null', 'undefined', '\u0000']) expect(parseFeedMessage(bad)).toBeNull();
  });
});

describe('the version', () => {
  it('goes up with every change of what the two programs say to each other, and names it in its history', () => {
    // Where this differs: raise syncVersion, add a line to its history, and put the new hash here. An
    // optional member that the other program may ignore needs the new hash only.
    const shapes = contentHash(JSON.parse(JSON.stringify(syncShapes)));
    expect({ syncVersion, shapes }).toEqual({
      syncVersion: 7,
      shapes: 'sha256:1ca92afe6d8667e1bf8f8721cc6a3128edb95d8ccfc2e9a53f2eeda8f765b339',
    });
  });
});

describe('the answer to a pull', () => {
  const answer = (entries: readonly unknown[]) =>
    text({
      ...{ entries, account_head: 1, global_head: 1, heads_age_ms: 1, held_ms: 1 },
      ...{ replica: 'r', now_ms: 1, snapshot_needed: false },
    });

  it.each([
    [
      'of a kind that nobody here knows',
      { ...entry, kind: 'passport.paused' },
      /"passport.paused" is no kind/,
    ],
    ['with a name of every object', { ...entry, kind: 'constructor' }, /"constructor" is no kind/],
  ])('is one with an entry %s, which is named when it is opened', (_what, bad, message) => {
    const [sealed] = parseChangesAnswer(answer([bad]))?.entries ?? [];
    expect(sealed).toEqual(bad);
    expect(() => openEntry(sealed as SealedEntry)).toThrow(message);
    expect(openEntry(entry)).toBe(entry);
  });

  it('is none with an entry that has no place', () => {
    expect(parseChangesAnswer(answer([{ ...entry, revision: null }]))).toBeNull();
  });
});

describe('a snapshot', () => {
  it('is not one where a single item of it is wrong', () => {
    const gates = [gateBody(1), { ...gateBody(2), trust_level: 'L4' }];
    expect(parseSnapshot(text({ ...service.state(), gates }))).toBeNull();
  });
});

describe('what a batch is answered', () => {
  const error = (code: string, rest: object = {}) =>
    text({ error: { code, message: 'm', status: 409, ...rest } });

  it.each([
    [200, text({ next_seq: 8 }), { kind: 'taken', nextSeq: 8 }],
    [409, error('sequence_gap', { expected_seq: 3 }), { kind: 'gap', expectedSeq: 3 }],
    [409, error('connection_superseded'), { kind: 'superseded' }],
    [409, error('connection_unknown'), { kind: 'reconnect' }],
    [
      400,
      error('record_refused', { refused: [{ seq: 2, message: 'why' }] }),
      { kind: 'refused', refused: [{ seq: 2, message: 'why' }] },
    ],
  ])('%i %s means something', (status, body, answer) => {
    expect(parseShipAnswer(status, body)).toEqual(answer);
  });

  it.each([
    [200, text({ next_seq: 0 })],
    [400, error('invalid_request')],
    [409, error('sequence_gap')],
    [503, error('connection_superseded')],
    [502, '<html>'],
  ])('%i %s means nothing', (status, body) => {
    expect(parseShipAnswer(status, body)).toBeNull();
  });
});
