import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';
import type { DebianProgramName } from './debian-program.ts';

/**
 * What one run of vitest shares between its files. Each is started when the first file asks for it: most
 * files need neither.
 */
export type SharedService = 'postgres' | 'programs' | 'bundle' | 'console' | 'package' | DebianProgramName;
export type SharedServiceAnswer = { readonly ok: string } | { readonly error: string };

/**
 * Asks the run's main process for something that all test files share. Throws with its reason where it cannot
 * be had.
 */
export async function sharedService(name: SharedService): Promise<string> {
  const socket = connect(inject('sharedServices'));
  socket.write(name);
  const answer = JSON.parse(await text(socket)) as SharedServiceAnswer;
  if ('error' in answer) throw new Error(answer.error);
  return answer.ok;
}
