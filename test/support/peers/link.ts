import { createServer, connect as dial, type NetConnectOpts, type Socket } from 'node:net';
import { type ListeningServer, listening } from '../base/listening.ts';

/** A connection between two programs that a test can cut: bytes pass both ways until then. */
export interface Link extends ListeningServer {
  /** Ends what is open and refuses what comes, as a machine does whose program is gone. */
  cut(): void;
  restore(): void;
}

interface LinkOptions {
  /** How long bytes are on their way there, and back. */
  readonly eachWayMs?: number;
  /**
   * Called with each new connection: what is called before bytes are sent there, and before they are back.
   */
  readonly watch?: () => { onAsked(): void; onAnswered(): void };
}

export async function linkTo(
  to: number | NetConnectOpts,
  { eachWayMs = 0, watch }: LinkOptions = {},
): Promise<Link> {
  const open = new Set<Socket>();
  let isCut = false;
  const keep = (socket: Socket, other: Socket): void => {
    open.add(socket.setNoDelay(true));
    // Whatever ends one side ends the other; how it ended shows at both.
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      open.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    const far = dial(typeof to === 'number' ? { port: to, host: '127.0.0.1' } : to);
    keep(near, far);
    keep(far, near);
    const watched = watch?.();
    if (eachWayMs === 0 && watched === undefined) {
      near.pipe(far).pipe(near);
      return;
    }
    near.on('data', () => watched?.onAsked());
    passLater(near, far, eachWayMs);
    passLater(far, near, eachWayMs, watched?.onAnswered);
  });
  const { close, ...address } = await listening(server);
  const cutOpen = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    ...address,
    cut: () => {
      isCut = true;
      cutOpen();
    },
    restore: () => {
      isCut = false;
    },
    close: () => {
      cutOpen();
      return close();
    },
  };
}

/** In their order: what came later is never passed on earlier. `onPassed` comes before each write. */
function passLater(from: Socket, to: Socket, afterMs: number, onPassed = (): void => undefined): void {
  const pass = (bytes: Buffer) => {
    onPassed();
    if (to.writable) to.write(bytes);
  };
  from.on('data', (bytes: Buffer) => {
    if (afterMs === 0) pass(bytes);
    else setTimeout(pass, afterMs, bytes);
  });
}
