import type { Account, AccountStatus, Plan } from '../../shared/model/account.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { AccountState } from '../../shared/wire/api/account.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readPage } from '../storage/read-page.ts';

interface AccountRow {
  readonly account_id: AccountId;
  readonly name: string;
  readonly plan: Plan;
  readonly status: AccountStatus;
  readonly requests_per_minute: number | null;
  readonly requests_per_day: number | null;
  readonly is_operator: boolean;
  readonly created_at_ms: UnixMillis;
}

/** Two null limits equal no limits. */
const toAccount = (row: AccountRow): Account => ({
  accountId: row.account_id,
  name: row.name,
  plan: row.plan,
  status: row.status,
  limits:
    row.requests_per_minute === null && row.requests_per_day === null
      ? null
      : { requestsPerMinute: row.requests_per_minute, requestsPerDay: row.requests_per_day },
  isOperator: row.is_operator,
  createdAtMs: row.created_at_ms,
});

export async function insertAccount(tx: Transaction, account: Account): Promise<void> {
  await tx`
    INSERT INTO accounts
      (account_id, name, plan, status, requests_per_minute, requests_per_day, is_operator, created_at_ms)
    VALUES (${account.accountId}, ${account.name}, ${account.plan}, ${account.status},
      ${account.limits?.requestsPerMinute ?? null}, ${account.limits?.requestsPerDay ?? null},
      ${account.isOperator}, ${account.createdAtMs})`;
}

export async function findAccount(sql: Database, accountId: AccountId): Promise<Account | null> {
  const [row] = await sql<AccountRow[]>`SELECT * FROM accounts WHERE account_id = ${accountId}`;
  return row === undefined ? null : toAccount(row);
}

export async function lockAccount(tx: Transaction, accountId: AccountId): Promise<Account | null> {
  const [row] = await tx<AccountRow[]>`SELECT * FROM accounts WHERE account_id = ${accountId} FOR UPDATE`;
  return row === undefined ? null : toAccount(row);
}

export async function listAccounts(sql: Database, page: PagePlace): Promise<Page<Account>> {
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM accounts`,
    rows: async (limit) => {
      const rows = await sql<AccountRow[]>`
        SELECT * FROM accounts WHERE true ${page.behind === null ? sql`` : sql`AND account_id < ${page.behind}`}
        ORDER BY account_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return rows.map(toAccount);
    },
    idOf: ({ accountId }) => accountId,
  });
}

export async function updateAccountState(
  tx: Transaction,
  accountId: AccountId,
  state: AccountState,
): Promise<void> {
  await tx`
    UPDATE accounts SET name = ${state.name}, plan = ${state.plan}, status = ${state.status},
      requests_per_minute = ${state.limits?.requestsPerMinute ?? null},
      requests_per_day = ${state.limits?.requestsPerDay ?? null}
    WHERE account_id = ${accountId}`;
}
