import { type AddressInfo, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { listening } from '../base/listening.ts';

/** A mail as the server got it. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Head and body, as they were sent. */
  readonly source: string;
  readonly isSecure: boolean;
  readonly user: string | null;
}

export interface MailServer {
  readonly port: number;
  readonly mails: ReceivedMail[];
  close(): Promise<void>;
}

/** A real mail server on this machine. */
export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const mails: ReceivedMail[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password }, _session, callback) =>
      password === 'the right one'
        ? callback(null, { user: username })
        : callback(new Error('Authentication credentials invalid')),
    onData: (stream, { envelope, secure, user }, callback) => {
      text(stream).then((source) => {
        const from = envelope.mailFrom === false ? '' : (envelope.mailFrom?.address ?? '');
        const to = envelope.rcptTo.map(({ address }) => address);
        mails.push({ from, to, source, isSecure: secure, user: typeof user === 'string' ? user : null });
        callback();
      }, callback);
    },
    ...options,
  });
  // A client that goes away in the middle.
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  return { port, mails, close: () => new Promise((resolve) => void server.close(() => resolve())) };
}

/**
 * A server that answers each line by what `say` says: null closes the connection, '' says nothing.
 * `greeting`: what it says first, in the same way.
 */
export async function startOddMailServer(
  say: (line: string) => string | null,
  greeting: string | null = '220 here',
): Promise<Pick<MailServer, 'port' | 'close'> & { readonly lines: string[]; connections(): number }> {
  const lines: string[] = [];
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined);
    const answer = (said: string | null) => {
      if (said === null) socket.destroy();
      else if (said !== '') socket.write(`${said}\r\n`);
    };
    answer(greeting);
    let rest = '';
    socket.on('data', (piece) => {
      const parts = `${rest}${piece.toString('utf8')}`.split('\r\n');
      rest = parts.pop() ?? '';
      for (const line of parts) {
        lines.push(line);
        answer(say(line));
      }
    });
  });
  const { port, close } = await listening(server);
  return { port, lines, connections: () => connections, close };
}
