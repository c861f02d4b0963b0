import { describe, expect, it } from 'vitest';
import { readEvent } from '../../../../control-plane/federation/read-event.ts';
import { whomTheyMean } from '../../../../control-plane/federation/read-subject.ts';
import type { UnixMillis } from '../../../../shared/model/time.ts';
import { parseStoredFederation } from '../../../../shared/wire/api/federation.ts';

const iss = 'https://idp.example';
const federationOf = (claims: object) =>
  parseStoredFederation({
    ...{ type: 'oidc', issuer: iss, audiences: ['gate'], is_pasted: true, claims },
  });
const bySub = federationOf({ owner: '/email' });
const meant = (...identifiers: readonly unknown[]) => whomTheyMean(identifiers, bySub);
const subject = (name: string) => ({ kind: 'subject', name });
const owner = (name: string) => ({ kind: 'owner', name });

const planner = { format: 'iss_sub', iss, sub: 'planner' };
const ann = { format: 'email', email: 'ann@example.com' };
const phone = { format: 'phone_number', phone_number: '+12065550100' };

describe('a subject identifier', () => {
  it.each([
    ['iss_sub', planner, [subject('planner')]],
    ['as drafts had it', { subject_type: 'iss-sub', iss, sub: 'planner' }, [subject('planner')]],
    ['opaque', { format: 'opaque', id: 'planner' }, [subject('planner')]],
    ['uri', { format: 'uri', uri: 'spiffe://x/a' }, [subject('spiffe://x/a')]],
    ['did', { format: 'did', url: 'did:example:1' }, [subject('did:example:1')]],
    ['email', ann, [owner('ann@example.com')]],
    ['email in another form', { format: 'email', email: 'Ann@Example.COM' }, [owner('ann@example.com')]],
    ['account', { format: 'account', uri: 'acct:ann+x@example.com' }, [owner('ann+x@example.com')]],
    ['complex', { format: 'complex', user: planner, session: { format: 'jwt_id' } }, [subject('planner')]],
    ['complex, as drafts had it', { user: ann, device: {} }, [owner('ann@example.com')]],
    ['complex with aliases', { format: 'complex', user: { format: 'aliases', identifiers: [ann] } }],
    ['with a member of no meaning', { ...planner, note: 'x' }, [subject('planner')]],
    [
      'aliases',
      { format: 'aliases', identifiers: [phone, planner, ann] },
      [subject('planner'), owner('ann@example.com')],
    ],
    ['aliases of which one is new', { format: 'aliases', identifiers: [{ format: 'new' }, ann] }],
  ])('%s is understood', (_what, identifier, names = [owner('ann@example.com')]) => {
    expect(meant(identifier)).toEqual(names);
  });

  it('means whom claims of the issuer name', () => {
    const by = (claims: object, identifier: object) => whomTheyMean([identifier], federationOf(claims));
    expect(by({ agent_id: '/phone_number' }, phone)).toEqual([subject('+12065550100')]);
    expect(by({ agent_id: '/oid' }, { format: 'opaque', id: 'o' })).toEqual([subject('o')]);
    expect(by({ agent_id: '/upn', owner: '/email' }, ann)).toEqual([
      subject('ann@example.com'),
      owner('ann@example.com'),
    ]);
    for (const [claims, identifier] of [
      [{ agent_id: '/oid' }, planner],
      [{ agent_id: '/azp', owner: '/team' }, planner],
      [{}, ann],
      [{ owner: '/email' }, phone],
      [{}, { ...planner, iss: 'https://other.example' }],
      [{}, { format: 'opaque', id: 'a'.repeat(256) }],
      [{}, { format: 'opaque', id: 'a\nb' }],
      [{}, { format: 'uri', uri: 'spiffe://x/a/../b' }],
    ] as const)
      expect(by(claims, identifier)).toMatch(/no claim of this issuer/);
  });

  it.each([
    ['a format that nobody knows', { format: 'jwt_id', iss, jti: 'x' }],
    ['a format of no text', { format: ['iss_sub'], iss, sub: 'planner' }],
    ['an inherited format', { format: 'constructor', id: 'x' }],
    ['no format', { iss, sub: 'planner' }],
    ['no format, and an id', { id: 'planner' }],
    ['a member missing', { format: 'iss_sub', sub: 'planner' }],
    ['a member of no text', { format: 'opaque', id: 7 }],
    ['an empty member', { format: 'email', email: '' }],
    ['members of two formats', { ...planner, email: 'ann@example.com' }],
    ['an account that is none', { format: 'account', uri: 'mailto:ann@example.com' }],
    ['an account that cannot be read', { format: 'account', uri: 'acct:ann%40b@example.com' }],
    ['complex without a user', { format: 'complex', session: planner }],
    ['complex in complex', { format: 'complex', user: { format: 'complex', user: planner } }],
    ['a user in a user', { user: { user: planner } }],
    ['no aliases', { format: 'aliases', identifiers: [] }],
    ['aliases of none that is known', { format: 'aliases', identifiers: [{ format: 'jwt_id' }, 'x'] }],
    [
      'aliases in aliases',
      { format: 'aliases', identifiers: [ann, { format: 'aliases', identifiers: [ann] }] },
    ],
    ['too many aliases', { format: 'aliases', identifiers: Array.from({ length: 33 }, () => ann) }],
    ['text', 'planner'],
    ['null', null],
    ['a list', [planner]],
  ])('%s is not understood', (_what, identifier) => {
    expect(meant(identifier)).toMatch(/not understood/);
  });

  it('beside another one names the same, or contradicts it', () => {
    const opaque = (id: string) => ({ format: 'opaque', id });
    expect(meant(planner, planner)).toEqual([subject('planner')]);
    expect(meant(planner, ann)).toEqual([subject('planner'), owner('ann@example.com')]);
    expect(meant(planner, opaque('planner'))).toEqual([subject('planner')]);
    expect(meant(ann, { format: 'aliases', identifiers: [phone, ann] })).toEqual([owner('ann@example.com')]);
    expect(meant(ann, { ...ann, email: 'ANN@example.com' })).toEqual([owner('ann@example.com')]);
    for (const [one, other] of [
      [planner, { ...planner, sub: 'other' }],
      [planner, opaque('other')],
      [planner, { ...planner, iss: 'https://other.example' }],
      [ann, { format: 'account', uri: 'acct:ben@example.com' }],
      [
        { format: 'complex', user: planner, tenant: phone },
        { ...planner, sub: 'other' },
      ],
      [
        { format: 'aliases', identifiers: [planner, ann] },
        { format: 'email', email: 'ben@example.com' },
      ],
    ]) {
      expect(meant(one, other)).toMatch(/contradict/);
      expect(meant(other, one)).toMatch(/contradict/);
    }
    expect(meant()).toMatch(/does not say/);
  });
});

describe('a security event', () => {
  const revoked = 'https://schemas.openid.net/secevent/caep/event-type/session-revoked';
  const enabled = 'https://schemas.openid.net/secevent/risc/event-type/account-enabled';
  const read = (change: object) =>
    readEvent({ iss, aud: 'gate', jti: 'j', iat: 1e9, ...change }, bySub, 1e12 as UnixMillis);
  const target = (effect: string) => ({ ...subject('planner'), effect });

  it('is about the subject of the event, of the token, or its plain one', () => {
    for (const said of [
      { events: { [revoked]: { subject: planner } } },
      { sub_id: planner, events: { [revoked]: {} } },
      { sub_id: planner, events: { [revoked]: null } },
      { sub_id: planner, events: { [revoked]: { subject: null } } },
      { sub: 'planner', events: { [revoked]: {} } },
      { sub: 'planner', sub_id: planner, events: { [revoked]: { subject: planner } } },
    ])
      expect(read(said)).toMatchObject({ targets: [target('suspend')], ignored: [] });
    for (const said of [
      { sub_id: planner, events: { [revoked]: { subject: { ...planner, sub: 'other' } } } },
      { sub: 'other', sub_id: planner, events: { [revoked]: {} } },
      // Nothing is done of an order of which a part is not understood.
      { events: { [revoked]: { subject: planner }, [enabled]: { subject: { format: 'new' } } } },
      { events: { [revoked]: {} } },
    ])
      expect(read(said)).toMatchObject({ claim: 'sub_id' });
  });

  it('without an effect is taken, whomever it is about', () => {
    const odd = { format: 'jwt_id', jti: '\u0000' };
    for (const subject of [odd, 'x', 7])
      expect(read({ events: { 'https://example.com/other': { subject } } })).toMatchObject({
        targets: [],
        ignored: [{ type: 'https://example.com/other', subject: JSON.stringify(subject) }],
      });
    expect(read({ events: { other: 7 } })).toMatchObject({ ignored: [{ type: 'other', subject: null }] });
    const both = { sub_id: planner, events: { [revoked]: {}, other: {} } };
    expect(read(both)).toMatchObject({ targets: [target('suspend')], ignored: [{ type: 'other' }] });
  });

  it.each([
    ['iss', { iss: 'https://other.example' }],
    ['iss', { iss: [iss] }],
    ['aud', { aud: 'other' }],
    ['aud', { aud: [['gate']] }],
    ['aud', { aud: { gate: 'gate' } }],
    ['aud', { aud: undefined }],
    ['jti', { jti: 7 }],
    ['iat', { iat: '1000000000' }],
    ['events', { events: {} }],
  ])('is refused for its %s: %j', (claim, change) => {
    expect(read({ events: { other: {} }, ...change })).toMatchObject({ claim });
  });
});
