import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import type { Listening, ListenOptions, ServerPort } from '../http/server.ts';

/** Listens, or throws a StartError for the operator who chose the address. */
export async function listen(server: ServerPort, options: ListenOptions): Promise<Listening> {
  const { host, port } = options;
  try {
    return await server.listen(options);
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) {
      throw new StartError(
        `Port ${port} on ${host} is in use by another program. Stop that one, or set SIDECAR_PORT.`,
        { cause: error },
      );
    }
    const message = error instanceof Error ? error.message : String(error);
    throw new StartError(`Cannot listen on SIDECAR_HOST ${host}, SIDECAR_PORT ${port}: ${message}.`, {
      cause: error,
    });
  }
}
