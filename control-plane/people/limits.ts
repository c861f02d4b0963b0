import { dayMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const peopleLimits = {
  /** Of one account: the list is shown whole to people, and no installation of ours has a tenth of it. */
  usersPerAccountMax: 1_000,
  /** Addresses of other scripts that a start looks at; ten times what the largest installation has. */
  unusualEmailsMax: 10_000,
  invitationMs: 7 * dayMs,
  /** So long people who could have opened each other's links are one person (contract §8). */
  onePersonMs: 365 * dayMs,
  /** Links of a first owner that work at once: every start of every replica makes one. */
  firstOwnerLinksMax: 8,
  /**
   * One address may belong to users of several accounts; a login that names none tries the password at so
   * many of them, the oldest, and computes as many hashes for an unknown address.
   */
  loginCandidatesMax: 2,
  /**
   * Tries of a wrong password: of one address, as its owner mistypes it, of one network with all its people,
   * and of one account with all its users. A browser that has logged in before is counted by itself.
   */
  attemptsPerEmailMax: 10,
  attemptsPerNetworkMax: 100,
  attemptsPerAccountMax: 300,
  attemptsPerDeviceMax: 10,
  attemptWindowMs: 15 * minuteMs,
  /**
   * Rows of all these counts together: 20 MB. Beyond it the oldest are forgotten and may try again early; the
   * hashes below bound the work as a whole.
   */
  attemptRowsMax: 80_000,
  /** A control plane looks whether there are more rows after it has counted so many keys. */
  attemptsPerForgetting: 1_000,
  /** Attempts of one lane that wait for the statement under way: one statement counts them all. */
  attemptsWaitingMax: 256,
  /** A count that was full is not asked again for so long. */
  fullKeptMs: secondMs,
  fullKeysMax: 20_000,
  /**
   * Hashes of passwords that are computed at once in each of the two lanes, 16 MB and a thread each, and
   * logins that wait: at 0.4 s each the last one waits for six seconds.
   */
  hashesPerLaneMax: 1,
  hashesWaitingMax: 16,
  /** Owners with a remembered count of recent hashes: a megabyte per lane. */
  hashOwnersMax: 10_000,
  /**
   * Counted runs of an owner: more than a person who mistypes a password needs, and few enough for a flood to
   * reach in a minute.
   */
  runsCountedMax: 8,
} as const;
