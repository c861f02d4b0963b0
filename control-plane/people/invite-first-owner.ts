import type { AccountId } from '../../shared/model/ids.ts';
import type { PeopleDeps } from './deps.ts';
import { endFirstOwnerLinks, makeInvitation } from './invitation-store.ts';
import { peopleLimits } from './limits.ts';
import { countUsers } from './user-store.ts';

/**
 * The link by which somebody becomes the first owner of the operator's account. Null: the account has users,
 * and one of them invites the others. Links of earlier starts, and of other replicas, go on working for their
 * time; the first that is used ends all.
 */
export const inviteFirstOwner = (
  deps: Pick<PeopleDeps, 'sql' | 'random' | 'clock' | 'baseUrl'>,
): Promise<string | null> =>
  deps.sql.begin(async (tx) => {
    const [operator] = await tx<{ accountId: AccountId }[]>`
      SELECT account_id AS "accountId" FROM accounts WHERE is_operator`;
    if (operator === undefined || (await countUsers(tx, operator.accountId)) > 0) return null;
    await endFirstOwnerLinks(tx, operator.accountId, { kept: peopleLimits.firstOwnerLinksMax - 1 });
    return (await makeInvitation(tx, deps, { ...operator, userId: null })).url;
  });
