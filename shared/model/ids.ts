import type { Branded } from './brand.ts';
import type { UnixMillis } from './time.ts';

export type AccountId = Branded<string, 'AccountId'>;
export type ApiKeyId = Branded<string, 'ApiKeyId'>;
export type ApprovalId = Branded<string, 'ApprovalId'>;
export type AttestationId = Branded<string, 'AttestationId'>;
export type AuditId = Branded<string, 'AuditId'>;
export type BacktestId = Branded<string, 'BacktestId'>;
export type ChannelId = Branded<string, 'ChannelId'>;
export type DeliveryId = Branded<string, 'DeliveryId'>;
export type EventId = Branded<string, 'EventId'>;
export type GateId = Branded<string, 'GateId'>;
export type IssuerId = Branded<string, 'IssuerId'>;
export type McpPinId = Branded<string, 'McpPinId'>;
export type OutcomeId = Branded<string, 'OutcomeId'>;
export type PasskeyId = Branded<string, 'PasskeyId'>;
export type PassportId = Branded<string, 'PassportId'>;
export type RequestId = Branded<string, 'RequestId'>;
export type SessionId = Branded<string, 'SessionId'>;
export type SidecarId = Branded<string, 'SidecarId'>;
export type StandingApprovalId = Branded<string, 'StandingApprovalId'>;
export type TemplateId = Branded<string, 'TemplateId'>;
export type UserId = Branded<string, 'UserId'>;
export type WalletId = Branded<string, 'WalletId'>;
export type WebhookId = Branded<string, 'WebhookId'>;

/** Every kind of id with its type. The prefix of the text is the key of this map. */
interface IdTypes {
  readonly acct: AccountId;
  readonly appr: ApprovalId;
  readonly att: AttestationId;
  readonly aud: AuditId;
  readonly bt: BacktestId;
  readonly chan: ChannelId;
  readonly dlv: DeliveryId;
  readonly evt: EventId;
  readonly gate: GateId;
  readonly iss: IssuerId;
  readonly key: ApiKeyId;
  readonly mpin: McpPinId;
  readonly out: OutcomeId;
  readonly pass: PassportId;
  readonly pkey: PasskeyId;
  readonly req: RequestId;
  readonly sappr: StandingApprovalId;
  readonly sess: SessionId;
  readonly side: SidecarId;
  readonly tmpl: TemplateId;
  readonly usr: UserId;
  readonly wal: WalletId;
  readonly wh: WebhookId;
}

export type IdPrefix = keyof IdTypes;
export type Id<P extends IdPrefix> = IdTypes[P];

/** Crockford base 32 in lower case: no i, l, o or u, and its byte order is its numeric order. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const approvalName = /^s?appr_[0-7][0-9a-hjkmnp-tv-z]{25}$/;
const walletId = /^wal_[0-7][0-9a-hjkmnp-tv-z]{25}$/;
const timeChars = 10;
const randomChars = 16;
const bodyPattern = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Bytes of randomness that one id needs. */
export const idRandomBytes = 10;

/**
 * Makes `<prefix>_` + 26 characters: 48 bits of time, then 80 random bits, so that ids sort by the
 * millisecond of their creation (contract §12). Ids of one millisecond sort at random. `random` holds at
 * least `idRandomBytes` bytes from `randomOffset` on; each byte is used for one id only.
 */
export const makeId = <P extends IdPrefix>(
  prefix: P,
  nowMs: UnixMillis,
  random: Uint8Array,
  randomOffset = 0,
): Id<P> => assembleId(prefix, idTime(nowMs), random, randomOffset);

/** The time part of an id, reusable for all ids of one millisecond. */
export function idTime(nowMs: UnixMillis): string {
  let time = '';
  let rest: number = nowMs;
  for (let i = 0; i < timeChars; i++) {
    time = alphabet.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  return time;
}

/** `makeId` with its time from `idTime`. */
export const assembleId = <P extends IdPrefix>(
  prefix: P,
  time: string,
  random: Uint8Array,
  randomOffset: number,
): Id<P> =>
  `${prefix}_${time}${eightChars(random, randomOffset)}${eightChars(random, randomOffset + 5)}` as unknown as Id<P>;

const charCodes = Uint8Array.from(alphabet, (char) => char.charCodeAt(0));

/**
 * Five bytes as eight characters of five bits each. Each decision makes two ids, and a text that grows by one
 * character at a time took a quarter microsecond and 300 bytes more for each (bench row `micro`:
 * Random.newId).
 */
function eightChars(bytes: Uint8Array, at: number): string {
  const middle = byte(bytes, at + 2);
  const high = (byte(bytes, at) << 12) | (byte(bytes, at + 1) << 4) | (middle >> 4);
  const low = ((middle & 15) << 16) | (byte(bytes, at + 3) << 8) | byte(bytes, at + 4);
  return String.fromCharCode(
    charCode(high >> 15),
    charCode(high >> 10),
    charCode(high >> 5),
    charCode(high),
    charCode(low >> 15),
    charCode(low >> 10),
    charCode(low >> 5),
    charCode(low),
  );
}

const byte = (bytes: Uint8Array, index: number): number => bytes[index] ?? 0;
const charCode = (bits: number): number => charCodes[bits & 31] ?? 0;

/** Whether the text is an id of that kind, existing or not. */
export const isId = <P extends IdPrefix>(prefix: P, text: unknown): text is Id<P> =>
  typeof text === 'string' &&
  text.length === prefix.length + 1 + timeChars + randomChars &&
  text.startsWith(prefix) &&
  text.charCodeAt(prefix.length) === 0x5f &&
  bodyPattern.test(text.slice(prefix.length + 1));

/** The id of an approval, or of a standing approval. */
export const isApprovalName = (text: string): boolean => approvalName.test(text);

export const isWalletId = (text: string): boolean => walletId.test(text);
