import { messageOf } from '../../shared/errors/message-of.ts';
import { windowKey } from '../../shared/quota/window.ts';
import type { BalanceAnswer } from '../../shared/wire/sync/balance.ts';
import { type ApiAccess, CommandError, callApi } from '../base/call-api.ts';
import { type Finding, fail, ok, unknown, warn } from './doctor-finding.ts';
import { shortList } from './doctor-wallets.ts';

/** Whether the ledger has given out at least the units that somebody has (docs/operate/money-book.md). */
export async function checkBalance(access: ApiAccess): Promise<Finding> {
  try {
    const { total, windows } = (await callApi(access, 'GET', '/sync/leases/balance')).body as BalanceAnswer;
    if (total === 0) return ok('balance', 'the ledger has given out all units that somebody has');
    const lacking = windows.filter(({ leased, parts }) => leased < parts);
    const shown = (lacking.length > 0 ? lacking : windows).map(
      ({ counter, window: name, starts_at_ms: startsAtMs, leased, parts }) =>
        `${windowKey(counter, { name, startsAtMs })} (${leased} given out, ${parts} in use)`,
    );
    const extent = `${total} windows are out of balance`;
    return lacking.length > 0
      ? fail(
          'balance',
          `${extent}; units may be given out twice of ${shortList(shown)}`,
          'Read docs/operate/money-book.md, and lower these limits until their windows end.',
        )
      : warn(
          'balance',
          `${extent}; units nobody can use count until their end in ${shortList(shown)}`,
          'Read docs/operate/money-book.md.',
        );
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return unknown('balance', messageOf(error), 'Use a live admin:* key of the operator.');
  }
}
