import { CommandError, reasonOf } from './call-api.ts';

/** The body of an answer. Throws CommandError where it breaks off, and where it is longer than `bytesMax`. */
export async function readBytes(response: Response, bytesMax: number): Promise<Uint8Array> {
  const { pathname, origin } = new URL(response.url);
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of response.body ?? []) {
      bytes += piece.length;
      if (bytes > bytesMax) break;
      pieces.push(piece);
    }
  } catch (error) {
    throw new CommandError(`The answer of ${origin}${pathname} broke off: ${reasonOf(error)}.`);
  }
  if (bytes > bytesMax)
    throw new CommandError(`The answer of ${origin}${pathname} is longer than ${bytesMax} bytes.`);
  return Buffer.concat(pieces);
}

/** The same as UTF-8. */
export const readText = async (response: Response, bytesMax: number): Promise<string> =>
  Buffer.from(await readBytes(response, bytesMax)).toString();
