import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import type { Federation } from '../../shared/model/federation.ts';
import { limits } from '../../shared/model/limits.ts';
import { isLabel } from '../../shared/model/plain-text.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { namesAudience } from '../../shared/verification/foreign-issuers.ts';
import { federationLimits } from './limits.ts';
import { type Meant, whomTheyMean } from './read-subject.ts';

/** What a happening does to those it is about. */
type Effect = 'suspend' | 'reactivate';

const caep = 'https://schemas.openid.net/secevent/caep/event-type/';
const risc = 'https://schemas.openid.net/secevent/risc/event-type/';
const effects: ReadonlyMap<string, Effect> = new Map<string, Effect>([
  [`${caep}session-revoked`, 'suspend'],
  [`${caep}credential-change`, 'suspend'],
  [`${risc}account-disabled`, 'suspend'],
  [`${risc}account-enabled`, 'reactivate'],
]);

/** One who is suspended or reactivated. */
export interface Target extends Meant {
  readonly effect: Effect;
  /** Type of the event. */
  readonly type: string;
}

export interface SecurityEvent {
  readonly jti: string;
  readonly issuedAtMs: UnixMillis;
  /** Every type in it, known or not. */
  readonly types: readonly string[];
  readonly targets: readonly Target[];
  /** Those that have no effect, and whom they are about, as JSON; null: they do not say. */
  readonly ignored: readonly { readonly type: string; readonly subject: string | null }[];
}

/** Why an event is refused. `claim` is at fault, and `detail` says in words what it must be. */
export interface EventFault {
  readonly claim: 'iss' | 'aud' | 'jti' | 'iat' | 'events' | 'sub_id';
  readonly detail: string;
}

/**
 * The claims of a security event token (RFC 8417) whose signature verified. An event that has an effect is an
 * order: it is refused unless it is known whom it means here. Types that are not known have no effect,
 * whomever they are about.
 */
export function readEvent(
  payload: JsonObject,
  federation: Federation,
  nowMs: UnixMillis,
): SecurityEvent | EventFault {
  const { iss, aud, jti, iat, events } = payload;
  const refuse = (claim: EventFault['claim'], detail: string): EventFault => ({ claim, detail });
  if (federation.type !== 'jwt-svid' && iss !== federation.issuer)
    return refuse('iss', 'iss is another issuer');
  if (!namesAudience(aud, federation.audiences)) return refuse('aud', 'aud is another receiver');
  if (!isLabel(jti, federationLimits.eventIdCharsMax))
    return refuse('jti', 'jti is missing, too long, or has characters that are not text');
  if (typeof iat !== 'number') return refuse('iat', 'iat is missing');
  const issuedAtMs = Math.floor(iat * secondMs) as UnixMillis;
  const ageMs = nowMs - issuedAtMs;
  if (!(ageMs <= federationLimits.eventAgeMsMax)) return refuse('iat', 'iat is too long ago');
  if (ageMs < -federationLimits.eventAheadMsMax) return refuse('iat', 'iat is in the future');
  if (!isJsonObject(events)) return refuse('events', 'events is missing');
  const entries = Object.entries(events);
  if (entries.length === 0 || entries.length > federationLimits.eventTypesMax)
    return refuse('events', `events must have 1 to ${federationLimits.eventTypesMax} members`);
  const targets: Target[] = [];
  const ignored: { type: string; subject: string | null }[] = [];
  const types = entries.map(([type]) => type.slice(0, limits.webhookUrlCharsMax));
  for (const [type, event] of entries) {
    const effect = effects.get(type);
    const identifiers = identifiersOf(payload, event, federation.issuer);
    if (effect === undefined) {
      const subject = identifiers.length === 0 ? null : JSON.stringify(identifiers[0]);
      ignored.push({ type: type.slice(0, limits.webhookUrlCharsMax), subject });
      continue;
    }
    const meant = whomTheyMean(identifiers, federation);
    if (typeof meant === 'string') return refuse('sub_id', meant);
    targets.push(...meant.map((target) => ({ ...target, effect, type })));
  }
  return { jti, issuedAtMs, types, targets, ignored };
}

/** What says whom an event is about: its own, that of the token, and the token's `sub` (RFC 8417 §2.2). */
function identifiersOf(
  { sub, sub_id: ofToken }: JsonObject,
  event: unknown,
  iss: string,
): readonly unknown[] {
  const own = isJsonObject(event) ? event['subject'] : null;
  const plain = sub === undefined ? null : { format: 'iss_sub', iss, sub };
  return [own, ofToken, plain].filter((each) => each !== undefined && each !== null);
}
