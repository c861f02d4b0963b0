import type { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { ForbiddenError, NotFoundError } from '../../clients/node/src/errors.ts';
import type { WalletDetail } from '../../clients/node/src/generated/api.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { limits } from '../../shared/model/limits.ts';
import { cliLimits } from '../base/limits.ts';
import { type Finding, ok, unknown, warn } from './doctor-finding.ts';

/**
 * Wallets that need a person: frozen ones, and those of which a limit of money is used up, near its alert, or
 * lower than what is given out. Looks at the newest 200, and at what is used of the highest of them.
 */
export async function checkWallets(client: AgentTrust): Promise<Finding> {
  try {
    const { items, total } = await client.wallets.list({ limit: limits.pageItemsMax });
    if (total === 0) return ok('wallets', 'there are none');
    const highest = items.toSorted((one, other) => one.path.length - other.path.length);
    const looked = await readUsage(client, highest.slice(0, cliLimits.doctorWalletsMax));
    const named = (what: string, found: readonly { readonly name: string }[]): string[] =>
      found.length === 0 ? [] : [`${found.length} ${what}: ${shortList(found.map(({ name }) => name))}`];
    const states = looked.map((wallet) => ({ name: wallet.name, state: stateOf(wallet) }));
    const of = (wanted: UsageState) => states.filter(({ state }) => state === wanted);
    const troubles = [
      ...named(
        'frozen',
        items.filter(({ status }) => status === 'frozen'),
      ),
      ...named('with a limit below what is given out', of('passed')),
      ...named('used up', of('used up')),
      ...named('at alert_at', of('near')),
    ];
    const extent = `of the newest ${items.length} of ${total}, usage of ${looked.length}`;
    return troubles.length === 0
      ? ok('wallets', `none is frozen, used up or at alert_at (${extent})`)
      : warn(
          'wallets',
          `${troubles.join('; ')} (${extent})`,
          'Look at them: agent-trust wallets get; raise a limit, or unfreeze.',
        );
  } catch (error) {
    if (error instanceof ForbiddenError)
      return unknown('wallets', 'the key may not read wallets', 'Use a key with wallets:read.');
    return unknown('wallets', messageOf(error), 'See the lines above.');
  }
}

/** One after another, since a plan limit counts each. One that was deleted meanwhile is left out. */
async function readUsage(
  client: AgentTrust,
  wallets: readonly { readonly wallet_id: string }[],
): Promise<readonly WalletDetail[]> {
  const read: WalletDetail[] = [];
  for (const { wallet_id: id } of wallets) {
    try {
      read.push(await client.wallets.get(id));
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }
  return read;
}

type UsageState = 'passed' | 'used up' | 'near' | 'well';

/** The worst of its limits of money; a limit of 0 is one that somebody wanted. */
function stateOf({ usage, alert_at: alertAt }: WalletDetail): UsageState {
  const ofMoney = Object.entries(usage).flatMap(([name, each]) =>
    name.endsWith('_usd') && each !== undefined && each.limit > 0 ? each : [],
  );
  const micro = (usd: number): number => Math.round(usd * 1e6);
  const is = (test: (each: (typeof ofMoney)[number]) => boolean): boolean => ofMoney.some(test);
  const taken = ({ used, held }: (typeof ofMoney)[number]): number => micro(used) + micro(held);
  if (is((each) => taken(each) + micro(each.reserved) + micro(each.leased) > micro(each.limit)))
    return 'passed';
  if (is((each) => taken(each) >= micro(each.limit))) return 'used up';
  return is((each) => taken(each) >= micro(each.limit) * alertAt) ? 'near' : 'well';
}

const namesShownMax = 5;
export const shortList = (names: readonly string[]): string => {
  const more = names.length - namesShownMax;
  return `${names.slice(0, namesShownMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
};
