import { hourMs } from '../../shared/model/time.ts';
import type { Cap } from './caps.ts';
import type { Servers } from './servers.ts';
import { type CourseWallet, makeTree, walletCourse } from './wallet-course.ts';

/** What clients race along: gates and passports with caps, none used before. */
export interface Course {
  readonly lanes: readonly Lane[];
  readonly caps: readonly Cap[];
  /** Absent: the course has none. */
  readonly wallets?: readonly CourseWallet[];
}

/** A gate, and who asks it for what. */
export interface Lane {
  readonly gateId: string;
  readonly passports: readonly Runner[];
  /** Dollars of one request; empty: it costs nothing. */
  readonly amountsUsd: readonly number[];
  /** Requests that cost more wait for a person. */
  readonly asksAboveUsd: number | null;
  /** All of them would wait for a person, but for a standing approval; nobody answers. */
  readonly isApprovedAhead?: boolean;
  /** Money is held, and settled later; whether more than that may be charged. */
  readonly holds?: { readonly overrun: 'charge' | 'refuse' };
  /** Where a round is played in turns, nobody asks there before all others have taken what they can get. */
  readonly isLate?: boolean;
  /** Those of the gate's account, where it is another one. */
  readonly servers?: Servers;
}

export interface Runner {
  readonly id: string;
  readonly token: string;
  /** Absent: it is in none. */
  readonly walletId?: string;
}

/** Makes what a course needs. Both throw where it cannot be made. */
export interface Maker {
  createGate(body: Readonly<Record<string, unknown>>): Promise<string>;
  issuePassport(body?: Readonly<Record<string, unknown>>): Promise<Runner>;
  /** The id. Absent: the service knows no standing approvals, and no holds. */
  approveAhead?(body: Readonly<Record<string, unknown>>): Promise<string>;
  /** The id. Absent: the service knows no wallets. */
  createWallet?(body: Readonly<Record<string, unknown>>): Promise<string>;
  /** Another account, whose gates take the passports of this one. */
  readonly foreign?: {
    readonly servers: Servers;
    createGate(body: Readonly<Record<string, unknown>>): Promise<string>;
  };
}

/**
 * Sums that add up in no round way, so that a cap is met to the cent or not at all; the small ones fill what
 * the large ones leave.
 */
export const amountsUsd = [0.01, 0.25, 0.37, 1, 1.99, 3.1];
export const askedAboveUsd = 3;

const usd = 1_000_000;

function capOf(
  name: string,
  what: `${Cap['kind']} ${Cap['window']}`,
  limit: number,
  gateId: string | null,
  passport: Runner | null = null,
): Cap {
  const [kind, window] = what.split(' ') as [Cap['kind'], Cap['window']];
  return { name, kind, window, limit, gateId, passportId: passport?.id ?? null };
}

/** Passports without limits of their own, for any number of courses. */
export const makeCrowd = (make: Maker): Promise<Runner[]> =>
  Promise.all(Array.from({ length: crowdSize }, () => make.issuePassport()));

/**
 * As each passport has one chain of records, which grows by one record at a time, a few would be what clients
 * wait for.
 */
const crowdSize = 24;

/**
 * A course on which each kind of cap is met by itself: on rate and on money, per gate and per passport, by
 * minute, hour, day and month, and a passport's own over two gates. `size`: requests under a cap on rate,
 * dollars under one on money. `inWallets`: passports in a tree of wallets, in which each node is a cap.
 */
export async function makeCourse(
  make: Maker,
  crowd: readonly Runner[],
  size: number,
  inWallets = 0,
): Promise<Course> {
  const tree = await makeTree(make, size);
  const third = Math.ceil(size / 3);
  const plain = crowd.slice(0, 3);
  const saver = await make.issuePassport({ constraints: { spend_limits: { daily_usd: size } } });
  const walker = await make.issuePassport({ constraints: { rate_limits: { requests_per_minute: size } } });
  const gate = (constraints: object) => make.createGate({ constraints });

  const minute = await gate({ rate_limits: { requests_per_minute: size } });
  const hour = await gate({ rate_limits: { requests_per_hour: third, per: 'passport' } });
  const day = await gate({ spend_limits: { daily_usd: size } });
  const month = await gate({ spend_limits: { monthly_usd: third, per: 'passport' } });
  const asks = await gate({
    spend_limits: { daily_usd: size },
    approvals: { above_usd: askedAboveUsd, expires_in_s: 2 },
  });
  const shops = [await gate({}), await gate({})];

  const lane = (gateId: string, passports: readonly Runner[], amounts: readonly number[]): Lane => ({
    gateId,
    passports,
    amountsUsd: amounts,
    asksAboveUsd: gateId === asks ? askedAboveUsd : null,
  });
  const ahead = await approvedAhead(make, size);
  // A service that knows the one knows the other.
  const held =
    make.approveAhead === undefined ? { lanes: [], caps: [] } : await heldCourse(make, crowd, size);
  const wallets = await walletCourse(make, tree, inWallets);
  return {
    ...wallets,
    lanes: [
      lane(minute, crowd, []),
      lane(hour, plain, []),
      lane(day, crowd, amountsUsd),
      lane(month, plain, amountsUsd),
      lane(asks, crowd, amountsUsd),
      ...shops.map((shop) => lane(shop, [saver, walker], amountsUsd)),
      ...ahead.map((each) => each.lane),
      ...held.lanes,
      ...wallets.lanes,
    ],
    caps: [
      capOf('requests of a gate', 'gate_rate minute', size, minute),
      ...plain.map((passport, place) =>
        capOf(`requests of passport ${place + 1} at a gate`, 'gate_rate hour', third, hour, passport),
      ),
      capOf('money of a gate', 'gate_spend day', size * usd, day),
      ...plain.map((passport, place) =>
        capOf(`money of passport ${place + 1} at a gate`, 'gate_spend month', third * usd, month, passport),
      ),
      capOf('money of a gate with approvals', 'gate_spend day', size * usd, asks),
      capOf('money of a passport, two gates', 'passport_spend day', size * usd, null, saver),
      capOf('requests of a passport, two gates', 'passport_rate minute', size, null, walker),
      ...ahead.map((each) => each.cap),
      ...held.caps,
      ...wallets.caps,
    ],
  };
}

/** Gates at which money is held, and settled once it is known. */
export async function heldCourse(make: Maker, crowd: readonly Runner[], size: number): Promise<Course> {
  const kinds = [
    { onExpiry: 'settle', overrun: 'charge' },
    { onExpiry: 'release', overrun: 'refuse' },
  ] as const;
  const made = await Promise.all(
    kinds.map(async ({ onExpiry, overrun }) => {
      const gateId = await make.createGate({
        constraints: {
          spend_limits: { daily_usd: size },
          holds: { expires_in_s: 60, on_expiry: onExpiry, overrun },
        },
      });
      const lane: Lane = { gateId, passports: crowd, amountsUsd, asksAboveUsd: null, holds: { overrun } };
      const name = `money of a gate that holds it, ${overrun}s more`;
      return { lane, cap: capOf(name, 'gate_spend day', size * usd, gateId) };
    }),
  );
  return { lanes: made.map(({ lane }) => lane), caps: made.map(({ cap }) => cap) };
}

/** A gate that asks about every request, and one passport for which some are approved ahead. */
async function approvedAhead(
  make: Maker,
  size: number,
): Promise<readonly { readonly lane: Lane; readonly cap: Cap }[]> {
  if (make.approveAhead === undefined) return [];
  const trusted = await make.issuePassport();
  const gateId = await make.createGate({
    constraints: { approvals: { permissions: ['orders:create'], expires_in_s: 1 } },
  });
  const standingApprovalId = await make.approveAhead({
    gate_id: gateId,
    passport_id: trusted.id,
    permission_key: 'orders:create',
    each_usd: Math.max(...amountsUsd),
    total_usd: size,
    expires_at: new Date(Date.now() + hourMs).toISOString(),
  });
  const lane = { gateId, passports: [trusted], amountsUsd, asksAboveUsd: null, isApprovedAhead: true };
  const cap = capOf('money of a standing approval', 'standing_approval total', size * usd, gateId, trusted);
  return [{ lane, cap: { ...cap, standingApprovalId } }];
}
