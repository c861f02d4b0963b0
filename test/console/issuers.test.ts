import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { looksGood, sharedConsole, visit } from '../support/programs/console.ts';

let provider: ForeignProvider;
let issuerId: IssuerId;
let page: Page;

/** What somebody may put into a claim who wants the console to run it. */
const hostile = '<img src=x onerror=alert(1)>';

const world = sharedConsole({ outbound: { allowPrivate: true } });
beforeAll(async () => {
  provider = await startForeignProvider();
  await provider.addKey('RS256', 'first');
  const issuer = await world.api.createIssuer({
    name: 'Our people',
    federation: {
      type: 'oidc',
      issuer: provider.issuer,
      audiences: ['gate'],
      claims: { permissions: '/scp', trust_tier: '/tier', owner: '/email' },
      permission_map: { buyer: ['orders:create'] },
      trust_tier: 'L2',
    },
  });
  issuerId = issuer.issuer_id as IssuerId;
  page = await world.open({ role: 'owner' });
});
afterAll(() => provider?.close());

const claims = { scp: 'buyer openid', tier: 'L3', email: 'ann@example.com' };
const dialog = () => page.getByRole('dialog', { name: 'Try a token of Our people' });

/** Opens the dialog with this token: what it says of it, and of each claim. */
async function tried(token: string): Promise<{ verdict: string; steps: readonly (readonly string[])[] }> {
  await visit(page, '/issuers');
  await page.getByRole('button', { name: 'Try a token of Our people' }).click();
  await dialog().getByLabel('Token').fill(token);
  const verdict = await dialog().getByRole('status').innerText();
  const steps = await Promise.all(
    (await dialog().locator('dl > div').all()).map(async (row) => [
      await row.locator('dt').innerText(),
      await row.locator('dd').innerText(),
    ]),
  );
  return { verdict, steps };
}

describe('a token that is tried', () => {
  it('is explained claim by claim, as the passport that it would be', async () => {
    const { verdict, steps } = await tried(await provider.sign({ sub: hostile, ...claims }));
    expect(verdict).toBe(`A passport of ${hostile}, tier L2, for orders:create.`);
    const becomes = (text: string) => expect.stringContaining(text);
    expect(steps).toEqual([
      ['header.alg', 'RS256 The algorithm is accepted.'],
      ['iss, aud', becomes('This issuer, and no other, fits.')],
      ['signature', 'first The signature verifies.'],
      ['/exp', becomes('The passport ends at ')],
      ['/sub', `${hostile} The subject is ${hostile}.`],
      [
        '/scp',
        'buyer openid Permissions, with those of all: orders:create. The text is split at its blanks.',
      ],
      ['/tier', 'L3 The trust tier is L2.'],
      ['/email', 'ann@example.com The owner is ann@example.com.'],
    ]);
    // It was neither stored nor made a passport.
    const seen = await world.api.call({ url: `/v1/passports/${federatedPassportId(issuerId, hostile)}` });
    expect(seen.status).toBe(404);
  });

  it('is refused at its first fault, by the reason that gates give', async () => {
    const nowS = Math.floor(Date.now() / 1_000);
    const good = await provider.sign(claims);
    const rows: [string, string, string, string][] = [
      ['no token at all', 'a.b.c', 'passport_malformed', 'header'],
      ['another audience', await provider.sign({ aud: 'other' }), 'issuer_untrusted', 'iss, aud'],
      ['an unknown key', await provider.sign({}, { kid: 'second' }), 'passport_unknown_key', 'header.kid'],
      ['a changed signature', `${good.slice(0, -8)}AAAAAAAA`, 'passport_signature_invalid', 'signature'],
      ['a claim of another form', await provider.sign({ ...claims, scp: 7 }), 'passport_malformed', '/scp'],
      ['an old one', await provider.sign({ iat: nowS - 60, exp: nowS - 1 }), 'passport_expired', '/exp'],
    ];
    for (const [what, token, reason, claim] of rows) {
      const { verdict, steps } = await tried(token);
      expect([what, verdict, steps.at(-1)?.[0]]).toEqual([what, `No passport: ${reason}.`, claim]);
    }
  });

  it('can be read in light and dark, and fits a phone', async () => {
    await tried(await provider.sign({ sub: `${hostile} ${'x'.repeat(100)}`, ...claims }));
    await looksGood(page, 'issuers-try');
  });
});
