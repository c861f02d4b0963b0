import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import type { RecoveryAnswer } from '../../shared/wire/sync/recovery.ts';
import { type ApiAccess, callApi } from '../base/call-api.ts';
import type { TextSink } from '../base/text-sink.ts';

const shownMax = 50;

/**
 * `agent-trust recover [--apply]`: what sidecars know and the database lacks; with `--apply` it is taken back
 * and a new history begins. 0: history is whole. 1: it is not, and nothing was applied.
 */
export async function recoverCommand(options: {
  readonly access: ApiAccess;
  readonly isApplied: boolean;
  readonly keepsOlderGates: boolean;
  readonly output: TextSink;
}): Promise<ExitCode> {
  const { access, isApplied, keepsOlderGates, output } = options;
  const { body } = await callApi(access, 'POST', '/sync/history/recover', {
    apply: isApplied,
    keep_older_gates: keepsOlderGates,
  });
  const answer = body as RecoveryAnswer;
  const list = (title: string, lines: readonly string[]) => {
    if (lines.length === 0) return;
    output.write(
      `${title}:\n${lines
        .slice(0, shownMax)
        .map((line) => `  ${line}\n`)
        .join('')}`,
    );
    if (lines.length > shownMax) output.write(`  and ${lines.length - shownMax} more\n`);
  };
  const ends = (each: RecoveryAnswer['taken_back']) =>
    each.map(({ kind, id, account_id, standing }) => `${kind} ${id} of ${account_id}: ${standing}`);
  list(answer.applied ? 'taken back' : 'to be taken back', ends(answer.taken_back));
  list('to be done by hand before', ends(answer.by_hand));
  list(
    'lost records',
    answer.lost.map(
      ({ chain_id, after_sequence, last_sequence, records }) =>
        `${chain_id}: ${records} between ${after_sequence} and ${last_sequence}`,
    ),
  );
  list(
    'lost entries of the transparency log, which begins anew',
    answer.lost_trees.map(
      ({ witness, origin, size, entries }) =>
        `${entries} of ${origin}: witness ${witness} holds a tree of ${size}`,
    ),
  );
  list(
    'handed in again since the last recovery',
    answer.handed_in.map(
      ({ chain_id, lost, handed_in }) =>
        `${chain_id}: ${handed_in} of ${lost}${handed_in < lost ? '; the rest is lost unless a sidecar still has it' : ''}`,
    ),
  );
  if (answer.applied) output.write(`history is whole; generation ${answer.generation} has begun\n`);
  else if (answer.state === 'whole') output.write(`history is whole: generation ${answer.generation}\n`);
  else output.write('history went back; run it with --apply to take this back and begin a new generation\n');
  return answer.state === 'whole' ? exitCode.success : exitCode.failure;
}
