import { LRUCache } from 'lru-cache';
import type { AgentTrust } from '../clients/node/src/agent-trust.ts';
import type { Issuer } from '../clients/node/src/generated/api.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { openForeignToken } from '../shared/crypto/foreign-token.ts';
import type { JsonObject } from '../shared/crypto/json-object.ts';
import type { PermissionKey } from '../shared/model/permission.ts';
import { secondMs } from '../shared/model/time.ts';
import type { Clock } from '../shared/runtime/clock.ts';
import { proxyLimits } from './limits.ts';

/** What a token of another issuer permits; or the reason why it is no passport, for people. */
export type ForeignPermissions =
  | { readonly kind: 'granted'; readonly permissions: ReadonlySet<PermissionKey> }
  | { readonly kind: 'none'; readonly reason: string; readonly detail: string };

export type ReadForeign = (token: string) => Promise<ForeignPermissions>;

/** What is asked of the control plane, with a key that has `issuers:read`. */
type Issuers = Pick<AgentTrust['issuers'], 'list' | 'tryToken'>;

/**
 * Asks the control plane what tokens of the account's identity providers would become: it has the keys of the
 * providers, and what their claims mean here. Nothing is recorded. Answers are remembered for a while.
 */
export function foreignPermissions(issuers: Issuers, clock: Pick<Clock, 'now' | 'monotonic'>): ReadForeign {
  const known = new LRUCache<string, ForeignPermissions>({
    max: proxyLimits.foreignTokensMax,
    perf: { now: () => clock.monotonic() },
    // Otherwise it keeps a time of `perf` until a timer of the real clock ends.
    ttlResolution: 0,
  });
  const listed = listedIssuers(issuers, clock);
  let asking = 0;
  return async (token) => {
    const open = openForeignToken(token);
    if (typeof open === 'string') return refused('passport_malformed');
    const { exp } = open.payload;
    if (typeof exp === 'number' && clock.now() >= exp * secondMs) return refused('passport_expired');
    const name = sha256Hex(token);
    const remembered = known.get(name);
    if (remembered !== undefined) return remembered;
    // Made-up tokens cost the control plane a signature each.
    if (asking >= proxyLimits.foreignTokensAtOnceMax) return away;
    asking += 1;
    try {
      const answer = await ask(issuers, token, await listed(open.payload));
      // A provider's new key, or a changed setting, may make it one.
      const ttl = answer.kind === 'granted' ? proxyLimits.keysMsMax : proxyLimits.keysPauseMs;
      known.set(name, answer, { ttl });
      return answer;
    } catch {
      return away;
    } finally {
      asking -= 1;
    }
  };
}

const refused = (reason: string): ForeignPermissions => ({
  kind: 'none',
  reason,
  detail: 'This token is no passport here.',
});

const away: ForeignPermissions = {
  kind: 'none',
  reason: 'service_unavailable',
  detail:
    'What this token permits cannot be read now. The API key of the proxy needs the scope issuers:read for it.',
};

/**
 * A gate may trust an issuer of another account, of which only calls learn what its tokens permit: that no
 * issuer of the own account fits does not mean that calls are refused.
 */
const unknownIssuer: ForeignPermissions = {
  kind: 'none',
  reason: 'issuer_unknown',
  detail:
    'No issuer of the account of the proxy takes this token, so what it permits is not known here. Calls are decided all the same.',
};

async function ask(issuers: Issuers, token: string, fitting: readonly Issuer[]): Promise<ForeignPermissions> {
  for (const { issuer_id } of fitting) {
    const { reason, passport } = await issuers.tryToken(issuer_id, { token }, callOptions);
    if (passport !== null)
      return { kind: 'granted', permissions: new Set(passport.permissions as readonly PermissionKey[]) };
    // Another one of the same provider may take its audience.
    if (reason !== 'issuer_untrusted') return refused(reason ?? 'passport_malformed');
  }
  return unknownIssuer;
}

const callOptions = { deadlineMs: proxyLimits.keysAnswerMsMax };

/** The issuers of the account that such a token may be of. Read again for one that none fits. */
function listedIssuers(
  issuers: Issuers,
  { monotonic }: Pick<Clock, 'monotonic'>,
): (payload: JsonObject) => Promise<readonly Issuer[]> {
  let all: readonly Issuer[] = [];
  let readAtMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;
  const read = async (): Promise<void> => {
    const found: Issuer[] = [];
    for await (const issuer of issuers.list({ limit: proxyLimits.issuersPerPage }, callOptions)) {
      if (issuer.federation !== null) found.push(issuer);
      if (found.length === proxyLimits.issuersMax) break;
    }
    all = found;
    readAtMs = monotonic();
  };
  const refresh = async (ageMsMax: number): Promise<void> => {
    if (reading === null && monotonic() - readAtMs < ageMsMax) return;
    reading ??= read().finally(() => {
      reading = null;
    });
    await reading;
  };
  return async (payload) => {
    await refresh(proxyLimits.keysMsMax);
    const fitting = all.filter((issuer) => mayBeOf(issuer, payload));
    if (fitting.length > 0) return fitting;
    await refresh(proxyLimits.keysPauseMs);
    return all.filter((issuer) => mayBeOf(issuer, payload));
  };
}

/** A JWT-SVID names no issuer: its subject lies in the trust domain. */
function mayBeOf({ federation }: Issuer, { iss, sub }: JsonObject): boolean {
  if (federation === null) return false;
  if (federation.type !== 'jwt-svid') return iss === federation.issuer;
  return typeof sub === 'string' && sub.startsWith(`${federation.issuer}/`);
}
