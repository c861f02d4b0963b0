import { once } from 'node:events';
import type { ByteStream } from '../../clients/node/src/call-options.ts';
import type { CommandHost } from './host.ts';

/** Passes bytes on to standard output, no faster than its reader takes them. */
export async function writeStream(
  stream: ByteStream,
  { output }: Pick<CommandHost, 'output'>,
): Promise<undefined> {
  for await (const chunk of stream) if (!output.write(chunk)) await once(output, 'drain');
  return undefined;
}
