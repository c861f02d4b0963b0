import type { Database, Transaction } from '../base/database.ts';

/** For whom its agent acts, as an issuer of the gate's own account says; of others nobody vouches here. */
export const userOfApproval = (sql: Database | Transaction, approvals: string) => sql`
  CASE WHEN ${sql(approvals)}.passport_account_id = ${sql(approvals)}.gate_account_id THEN coalesce(nullif(${sql(approvals)}.token_user, ''),
    (SELECT for_user FROM passports WHERE passports.passport_id = ${sql(approvals)}.passport_id)) END`;
