import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { AccountId } from '../../shared/model/ids.ts';
import { replaceSecretFile } from '../../shared/runtime/secret-file.ts';
import type { PeopleDeps } from './deps.ts';
import { endFirstOwnerLinks, makeInvitation } from './invitation-store.ts';
import { peopleLimits } from './limits.ts';
import { countUsers } from './user-store.ts';

/** A link and the file that holds it. */
export interface FirstOwnerLink {
  /** A secret: its opener becomes the first owner. */
  readonly url: string;
  /** `first-owner-link` in `dataDir`, of mode 0600. */
  readonly file: string;
}

/** The link of this start, in its file; null: the account has users, and an earlier file is removed. */
export async function keepFirstOwnerLink(
  deps: Pick<PeopleDeps, 'sql' | 'random' | 'clock' | 'baseUrl'>,
  dataDir: string,
): Promise<FirstOwnerLink | null> {
  const file = join(dataDir, 'first-owner-link');
  const url = await inviteFirstOwner(deps);
  if (url === null) await rm(file, { force: true });
  else await replaceSecretFile(file, url);
  return url === null ? null : { url, file };
}

/**
 * The link for the first owner of the operator's account. Null: the account has users, who invite others.
 * Links of earlier starts, and of other replicas, go on working for their time; the first that is used ends
 * all.
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
