import { AgentTrustError } from '../../clients/node/src/errors.ts';
import { secondMs } from '../../shared/model/time.ts';
import { CommandError, reasonOf } from './call-api.ts';
import { cliLimits } from './limits.ts';

/** Opens a stream of the service, which the signal ends. */
export type OpenStream = (signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>;

/** In so many looks the silence is counted: a machine that slept is one look late, and gives nothing up. */
const looksMax = 8;

/**
 * An export as it arrives. Throws CommandError where it breaks off, and where the service is silent for
 * `silenceMsMax`, by default `cliLimits.exportSilenceMsMax`; a refusal as it is. Time that the reader takes
 * does not count.
 */
export async function* arriving(
  open: OpenStream,
  {
    signal,
    silenceMsMax = cliLimits.exportSilenceMsMax,
  }: { readonly signal?: AbortSignal; readonly silenceMsMax?: number } = {},
): AsyncGenerator<Uint8Array> {
  const own = new AbortController();
  let silentLooks = 0;
  let isWaiting = true;
  const timer = setInterval(() => {
    silentLooks = isWaiting ? silentLooks + 1 : 0;
    if (silentLooks >= looksMax) own.abort();
  }, silenceMsMax / looksMax);
  try {
    const stream = await open(signal === undefined ? own.signal : AbortSignal.any([signal, own.signal]));
    for await (const piece of stream) {
      isWaiting = false;
      yield piece;
      [isWaiting, silentLooks] = [true, 0];
    }
  } catch (error) {
    if (own.signal.aborted) throw brokeOff(`nothing came for ${silenceMsMax / secondMs} s`);
    if (error instanceof AgentTrustError || error instanceof CommandError) throw error;
    throw brokeOff(reasonOf(error));
  } finally {
    clearInterval(timer);
    own.abort();
  }
}

const brokeOff = (because: string): CommandError =>
  new CommandError(`The export broke off before its end: ${because}.`);
