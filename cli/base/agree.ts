import type { Work } from './host.ts';
import { confirm } from './prompt.ts';

/** Whether to go on: `--yes` says so, or the person at the terminal. Throws UsageError where neither can. */
export async function agreed(
  { dialogue, print }: Pick<Work, 'dialogue' | 'print'>,
  { yes }: { readonly yes?: boolean },
  question: string,
): Promise<boolean> {
  if (yes === true || (await confirm(dialogue, question))) return true;
  print.say('Nothing was changed.');
  return false;
}
