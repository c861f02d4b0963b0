/**
 * The advisory locks of the database: any numbers that nothing else in it uses, each for one thing, each held
 * to the end of its transaction. `test/unit/architecture.test.ts` sees to it that there are no others.
 */
export const advisoryLocks = {
  /** Migrations run on one replica at a time. */
  migrations: 7_236_501,
  /** All replicas make and rotate signing keys one after the other. */
  signingKeys: 7_236_502,
  /** Replicas that start at once make one account. */
  firstAccount: 7_236_503,
} as const;

/**
 * Seeds of locks that are made of the hash of a text: they set the locks of one kind apart from those of
 * another.
 */
export const advisoryLockSeeds = {
  /** One lock for each idempotency key of an API key. */
  idempotencyKeys: 7_236_504,
  /** One lock for each chain of the audit, the last of its transaction. */
  auditChains: 7_236_505,
} as const;
