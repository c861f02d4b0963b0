import { once } from 'node:events';
import { arriving, type OpenStream } from './arriving.ts';
import type { CommandHost } from './host.ts';

/** Passes bytes on to standard output, no faster than its reader takes them. Throws CommandError. */
export async function writeStream(
  open: OpenStream,
  { output }: Pick<CommandHost, 'output'>,
): Promise<undefined> {
  for await (const chunk of arriving(open)) if (!output.write(chunk)) await once(output, 'drain');
  return undefined;
}
