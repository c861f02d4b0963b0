import { type Static, Type } from 'typebox';
import { decodeBase64url, encodeBase64url } from '../../crypto/base64url.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { isId, type WalletId } from '../../model/ids.ts';
import type { Labels } from '../../model/labels.ts';
import { limits } from '../../model/limits.ts';
import { type MicroUsd, parseUsd, renderUsd } from '../../model/money.ts';
import { renderTime, type UnixMillis } from '../../model/time.ts';
import {
  type Wallet,
  type WalletLimitName,
  type WalletLimits,
  walletAlertAtDefault,
  walletLimitNames,
  walletLimits,
  walletShares,
  walletStatuses,
} from '../../model/wallet.ts';
import { closed, FreeForm, Name, nullable, Timestamp } from './fields.ts';
import { parseLabels, patchedLabels, renderLabels } from './labels.ts';
import { pagingQuery, TextPart } from './paging.ts';
import { readOnly } from './read-only.ts';

const Usd = Type.Number({ minimum: 0 });
const Requests = Type.Integer({ minimum: 0, maximum: limits.planRequestsMax });
const limitFields = {
  hourly_usd: Type.Optional(nullable(Usd)),
  daily_usd: Type.Optional(nullable(Usd)),
  monthly_usd: Type.Optional(nullable(Usd)),
  total_usd: Type.Optional(nullable(Usd)),
  requests_per_minute: Type.Optional(nullable(Requests)),
  requests_per_day: Type.Optional(nullable(Requests)),
} satisfies Record<WalletLimitName, unknown>;

export const WalletLimitsBody = closed(limitFields);
const Share = Type.Enum(walletShares);
const AlertAt = Type.Number({ exclusiveMinimum: 0, maximum: 1 });

/** `POST /wallets` */
export const WalletCreation = closed({
  name: Name,
  parent_wallet_id: Type.Optional(nullable(Type.String())),
  limits: Type.Optional(WalletLimitsBody),
  share: Type.Optional(Share),
  alert_at: Type.Optional(AlertAt),
  labels: Type.Optional(FreeForm),
});

/** `GET /wallets`; `parent_wallet_id` empty: the roots. */
export const WalletListQuery = Type.Object({
  name: TextPart,
  parent_wallet_id: Type.Optional(Type.String({ maxLength: 64, pattern: '^[^\\u0000]*$' })),
  ...pagingQuery,
});

const shown = {
  wallet_id: Type.String(),
  /** From the root down to itself. */
  path: Type.Array(Type.String()),
  status: Type.Enum(walletStatuses),
  created_at: Timestamp,
};

export const LimitsAnswer = Type.Partial(
  Type.Object({
    hourly_usd: Type.Number(),
    daily_usd: Type.Number(),
    monthly_usd: Type.Number(),
    total_usd: Type.Number(),
    requests_per_minute: Type.Number(),
    requests_per_day: Type.Number(),
  } satisfies Record<WalletLimitName, unknown>),
);

export const WalletAnswer = Type.Object({
  ...shown,
  name: Type.String(),
  parent_wallet_id: nullable(Type.String()),
  limits: LimitsAnswer,
  share: Share,
  alert_at: Type.Number(),
  labels: Type.Optional(FreeForm),
});

/** One limit in its current window, in USD or requests. */
export const WalletUsageAnswer = Type.Object({
  limit: Type.Number(),
  used: Type.Number(),
  held: Type.Number(),
  reserved: Type.Number(),
  leased: Type.Number(),
  remaining: Type.Number(),
  /** Null: of a total, which never begins anew. */
  reset_at: nullable(Timestamp),
});

const usageFields = Object.fromEntries(
  walletLimitNames.map((name) => [name, Type.Optional(WalletUsageAnswer)]),
) as Record<WalletLimitName, ReturnType<typeof Type.Optional<typeof WalletUsageAnswer>>>;

/** Members that move by themselves. */
const around = {
  usage: Type.Object(usageFields),
  passports: Type.Integer(),
  /** The newest; `GET /wallets?parent_wallet_id=` lists all. */
  children: Type.Array(WalletAnswer),
  children_total: Type.Integer(),
};

export const WalletDetailAnswer = Type.Object({ ...WalletAnswer.properties, ...around });

/** `PUT /wallets/:id`, a merge patch (RFC 7396): null removes, so that the default counts. */
export const WalletPatch = closed({
  name: Type.Optional(nullable(Name)),
  parent_wallet_id: Type.Optional(nullable(Type.String())),
  limits: Type.Optional(nullable(WalletLimitsBody)),
  share: Type.Optional(nullable(Share)),
  alert_at: Type.Optional(nullable(AlertAt)),
  labels: Type.Optional(nullable(FreeForm)),
  ...readOnly({ ...shown, ...around }),
});
export const walletReadOnly = shown;

export const WalletDeletion = Type.Object({
  wallet_id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

/** `POST /passports/:id/wallet` */
export const PassportWallet = closed({ wallet_id: nullable(Type.String()) });

/** What a caller asks for; whether the parent exists is seen later. */
export interface WantedWallet {
  readonly name: string;
  /** `unknown`: no id of a wallet. */
  readonly parentId: WalletId | 'unknown' | null;
  readonly limits: WalletLimits;
  readonly share: Wallet['share'];
  readonly alertAt: number;
  readonly labels: Labels;
}

export const parseWalletCreation = (body: Static<typeof WalletCreation>): WantedWallet => ({
  name: body.name,
  parentId: parentOf(body.parent_wallet_id),
  limits: parseWalletLimits(body.limits ?? {}, {}),
  share: body.share ?? shareDefault,
  alertAt: body.alert_at ?? walletAlertAtDefault,
  labels: parseLabels(body.labels ?? {}),
});

const shareDefault = 'pot';

/** Throws `invalid_request` for a null where a wallet must have something. */
export function applyWalletPatch(patch: Static<typeof WalletPatch>, current: WantedWallet): WantedWallet {
  const { name = current.name, share = current.share, alert_at: alertAt = current.alertAt } = patch;
  if (name === null) throw invalidRequest('name', 'name is required and cannot be removed.');
  return {
    name,
    parentId: patch.parent_wallet_id === undefined ? current.parentId : parentOf(patch.parent_wallet_id),
    limits: patch.limits === null ? {} : parseWalletLimits(patch.limits ?? {}, current.limits),
    share: share ?? shareDefault,
    alertAt: alertAt ?? walletAlertAtDefault,
    labels: patch.labels === undefined ? current.labels : patchedLabels(current.labels, patch.labels),
  };
}

const parentOf = (text: string | null | undefined): WantedWallet['parentId'] => {
  if (text === null || text === undefined) return null;
  return isId('wal', text) ? text : 'unknown';
};

/** Throws `invalid_request`, naming the limit. Null removes one. */
function parseWalletLimits(body: Static<typeof WalletLimitsBody>, before: WalletLimits): WalletLimits {
  const parsed: Partial<Record<WalletLimitName, number>> = { ...before };
  for (const name of walletLimitNames) {
    const given = body[name];
    if (given === undefined) continue;
    if (given === null) delete parsed[name];
    else parsed[name] = isMoney(name) ? parseMoney(name, given) : given;
  }
  return parsed;
}

function parseMoney(name: WalletLimitName, given: number): MicroUsd {
  const amount = parseUsd(given);
  if (amount === null)
    throw invalidRequest(`limits.${name}`, `limits.${name} must be at most 1e9, with at most 6 decimals.`);
  return amount;
}

const isMoney = (name: WalletLimitName): boolean => walletLimits[name].kind === 'wallet_spend';

/** Micro-USD as USD; requests as they are. */
const renderWalletUnits = (name: WalletLimitName, units: number): number =>
  isMoney(name) ? renderUsd(units as MicroUsd) : units;

export const renderWalletLimits = (of: WalletLimits): Static<typeof LimitsAnswer> =>
  Object.fromEntries(
    walletLimitNames.flatMap((name) => {
      const limit = of[name];
      return limit === undefined ? [] : [[name, renderWalletUnits(name, limit)]];
    }),
  );

export const renderWallet = (wallet: Wallet): Static<typeof WalletAnswer> => ({
  wallet_id: wallet.walletId,
  name: wallet.name,
  parent_wallet_id: wallet.parentId,
  path: [...wallet.path].reverse(),
  ...renderLabels(wallet.labels),
  limits: renderWalletLimits(wallet.limits),
  share: wallet.share,
  alert_at: wallet.alertAt,
  status: wallet.status,
  created_at: renderTime(wallet.createdAtMs),
});

/** Units of one limit in its current window. */
export interface WalletUsage {
  readonly name: WalletLimitName;
  readonly limit: number;
  readonly used: number;
  readonly held: number;
  readonly reserved: number;
  readonly leased: number;
  readonly remaining: number;
  /** Null: never. */
  readonly resetAtMs: UnixMillis | null;
}

const renderUsage = (usage: WalletUsage) => {
  const units = (count: number) => renderWalletUnits(usage.name, count);
  return {
    limit: units(usage.limit),
    used: units(usage.used),
    held: units(usage.held),
    reserved: units(usage.reserved),
    leased: units(usage.leased),
    remaining: units(usage.remaining),
    reset_at: usage.resetAtMs === null ? null : renderTime(usage.resetAtMs),
  };
};

export const renderWalletDetail = (
  wallet: Wallet,
  around: {
    readonly usage: readonly WalletUsage[];
    readonly passports: number;
    readonly children: readonly Wallet[];
    readonly childrenTotal: number;
  },
): Static<typeof WalletDetailAnswer> => ({
  ...renderWallet(wallet),
  usage: Object.fromEntries(around.usage.map((each) => [each.name, renderUsage(each)])),
  passports: around.passports,
  children: around.children.map(renderWallet),
  children_total: around.childrenTotal,
});

/** `GET /wallets/:id/statement` */
export const WalletStatementQuery = Type.Object({
  since: Type.String({ maxLength: 64 }),
  until: Type.String({ maxLength: 64 }),
  limit: Type.Integer({ minimum: 1, maximum: limits.statementLinesMax, default: limits.statementLinesMax }),
  /** `next_page` of the page before. */
  page: Type.Optional(Type.String({ maxLength: 1_024 })),
});

export const WalletStatementAnswer = Type.Object({
  wallet_id: Type.String(),
  since: Timestamp,
  until: Timestamp,
  /** Of all lines, on every page. */
  total_usd: Type.Number(),
  total_requests: Type.Integer(),
  items: Type.Array(
    Type.Object({
      passport_id: Type.String(),
      gate_id: nullable(Type.String()),
      permission_key: nullable(Type.String()),
      spent_usd: Type.Number(),
      requests: Type.Integer(),
    }),
  ),
  /** Null: no lines follow. */
  next_page: nullable(Type.String()),
});

/** What one line of a statement is about. */
export interface StatementLine {
  readonly passportId: string;
  readonly gateId: string | null;
  readonly permissionKey: string | null;
}

/** Names the last line of a page. It is no permission: a page has what its caller may read. */
export const renderStatementPlace = ({ passportId, gateId, permissionKey }: StatementLine): string =>
  encodeBase64url(Buffer.from(JSON.stringify([passportId, gateId, permissionKey])));

/** Throws `invalid_request` for anything that `renderStatementPlace` has not made. */
export function parseStatementPlace(text: string): StatementLine {
  const line = readStatementPlace(text);
  if (line === null || renderStatementPlace(line) !== text)
    throw invalidRequest('page', 'Must be next_page of an answer to the same query.');
  return line;
}

function readStatementPlace(text: string): StatementLine | null {
  const bytes = decodeBase64url(text);
  if (bytes === null) return null;
  try {
    const [passportId, gateId, permissionKey] = JSON.parse(Buffer.from(bytes).toString('utf8'));
    const isText = (value: unknown) => typeof value === 'string' && !value.includes('\u0000');
    const isLine =
      isText(passportId) &&
      (gateId === null || isText(gateId)) &&
      (permissionKey === null || isText(permissionKey));
    return isLine ? { passportId, gateId, permissionKey } : null;
  } catch {
    return null;
  }
}
