import type { ReactNode } from 'react';
import type { WalletDetail, WalletUsage } from '../api/client.ts';
import { count, usd } from './format.ts';
import { Ago } from './time.tsx';

/** The limits that a wallet may have, in the order in which they are shown. */
export const walletLimits = [
  ['hourly_usd', 'USD an hour'],
  ['daily_usd', 'USD a day'],
  ['monthly_usd', 'USD a month'],
  ['total_usd', 'USD in all'],
  ['requests_per_minute', 'Requests a minute'],
  ['requests_per_day', 'Requests a day'],
] as const;
export type WalletLimitName = (typeof walletLimits)[number][0];

const isMoney = (name: WalletLimitName): boolean => name.endsWith('_usd');
const amountOf = (name: WalletLimitName, amount: number): string =>
  isMoney(name) ? usd(amount) : count(amount);

/** As `$200.00 a day, 40 requests a minute`. */
export function limitsInWords(limits: Readonly<Partial<Record<WalletLimitName, number>>>): string {
  const words = walletLimits.flatMap(([name, label]) => {
    const limit = limits[name];
    if (limit === undefined) return [];
    const [, ...rest] = label.split(' ');
    return [`${amountOf(name, limit)} ${isMoney(name) ? '' : 'requests '}${rest.join(' ')}`];
  });
  return words.length === 0 ? 'no limits of its own' : words.join(', ');
}

/** What is left of each limit, as gauges with their numbers in words. */
export function WalletGauges({ usage }: { readonly usage: WalletDetail['usage'] }): ReactNode {
  const shown = walletLimits.flatMap(([name, label]) => {
    const of = usage[name];
    return of === undefined ? [] : [{ name, label, of }];
  });
  if (shown.length === 0) return <p className="soft">No limits of its own: those above it apply.</p>;
  return (
    <ul className="stack">
      {shown.map(({ name, label, of }) => (
        <li key={name} className="stack tight">
          <div className="row between">
            <span>{label}</span>
            <strong className="numbers">
              {amountOf(name, of.remaining)} left of {amountOf(name, of.limit)}
            </strong>
          </div>
          <Gauge name={name} of={of} />
        </li>
      ))}
    </ul>
  );
}

const parts = [
  ['used', 'used'],
  ['held', 'held'],
  ['leased', 'lent to sidecars'],
  ['reserved', 'reserved'],
] as const;

function Gauge({ name, of }: { readonly name: WalletLimitName; readonly of: WalletUsage }): ReactNode {
  // A limit that was lowered below what is given out is full, and no wider than the page.
  const whole = Math.max(of.limit, of.used + of.held + of.leased + of.reserved);
  const said = parts.filter(([part]) => part === 'used' || of[part] > 0);
  return (
    <>
      <div className="progress parts" aria-hidden="true">
        {parts.map(([part]) => (
          <div
            key={part}
            className={part}
            style={{ width: `${whole === 0 ? 0 : (of[part] / whole) * 100}%` }}
          />
        ))}
      </div>
      <span className="soft small">
        {said.map(([part, label]) => `${amountOf(name, of[part])} ${label}`).join(', ')}
        {of.reset_at === null ? '; never begins anew' : null}
        {of.reset_at === null ? null : (
          <>
            ; resets <Ago at={of.reset_at} />
          </>
        )}
      </span>
    </>
  );
}
