/**
 * Exit codes of all `agent-trust` commands. Others come from the system: 128 plus the number of the signal.
 */
export const exitCode = {
  /** Done; of a program that runs: ended by a signal, in order. */
  success: 0,
  /** It could not start, broke, or the answer is no: the service is away or refuses, a check fails. */
  failure: 1,
  /** Nothing was tried: an argument, a setting or a file that must be given is wrong or missing. */
  usage: 2,
  /** `apply --plan`: the account is not as the file says. */
  changesPlanned: 3,
  /** An export, or the keys to check it with, does not verify. */
  notVerified: 5,
  /** What would decide it is not there. */
  undecided: 6,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

const meanings: readonly (readonly [code: ExitCode, meaning: string])[] = [
  [exitCode.success, 'success; for a server: stopped in order by SIGINT or SIGTERM'],
  [
    exitCode.failure,
    'failure: could not start, stopped on an error, or the service is unreachable, not ready or refused the request',
  ],
  [
    exitCode.usage,
    'usage error, nothing was attempted: an argument, a setting or a file is wrong or missing',
  ],
  [exitCode.changesPlanned, '`apply --plan` found something to do; nothing was changed'],
  [
    exitCode.notVerified,
    'an export does not verify, names chains that are not whole, or could not be read to its end; a receipt does not verify, or convicts',
  ],
  [
    exitCode.undecided,
    '`evidence convict`: the export neither has the record nor shows that it was left out',
  ],
];

/** For `--help`. */
export const exitCodesHelp = (): string =>
  `Exit codes:\n${meanings.map(([code, meaning]) => `  ${code}  ${meaning}\n`).join('')}`;

/** For docs/cli.md. */
export const renderExitCodesTable = (): string =>
  [
    '| code | meaning |',
    '|---|---|',
    ...meanings.map(([code, meaning]) => `| ${code} | ${meaning} |`),
    '',
  ].join('\n');
