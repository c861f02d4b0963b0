import type { NodemailerError } from 'nodemailer';
import MailComposer from 'nodemailer/lib/mail-composer';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import type { ChannelError, ChannelFault } from '../../shared/model/channel.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { SmtpAddress } from '../../shared/runtime/smtp-url.ts';
import { redactAnswer } from '../outbox/redact-answer.ts';
import { channelsLimits } from './limits.ts';
import { isTlsFault } from './tls-fault.ts';

export interface Mail {
  readonly to: string;
  readonly messageId: string;
  readonly threadId: string | null;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export type MailOutcome =
  | { readonly isSent: true }
  | (ChannelError & {
      readonly isSent: false;
      /** The server will refuse this mail however often it is sent. */
      readonly isFinal: boolean;
    });

/** Sends mail through the server of SMTP_URL. */
export interface Mailer {
  /** One attempt, over a connection of its own. Never throws for what the server does. */
  send(mail: Mail, signal: AbortSignal): Promise<MailOutcome>;
}

export interface MailerOptions {
  readonly server: SmtpAddress;
  readonly from: string;
  /** Default: `channelsLimits.mailTimeoutMs`. */
  readonly timeoutMs?: number;
  /** PEM of certificate authorities instead of the usual ones; for tests. */
  readonly ca?: string;
}

/**
 * One connection for each mail, at most `channelsLimits.mailConnectionsMax` at once: a mail that waits longer
 * than its time has failed as one whose server does not answer.
 */
export function smtpMailer({
  server,
  from,
  timeoutMs = channelsLimits.mailTimeoutMs,
  ca,
}: MailerOptions): Mailer {
  const slots = new Slots(channelsLimits.mailConnectionsMax);
  return {
    send: async (mail, signal) => {
      const deadline = deadlineOf(timeoutMs, signal);
      try {
        const message = await compose(mail, from);
        await slots.take(deadline);
        try {
          await deliver({ server, ca }, { from, to: mail.to, message }, deadline);
        } finally {
          slots.give();
        }
        return { isSent: true };
      } catch (error) {
        if (error instanceof MailFault) return { isSent: false, ...error.outcome };
        throw error;
      } finally {
        deadline.clear();
      }
    },
  };
}

/** Why a mail was not sent. */
class MailFault extends Error {
  readonly outcome: ChannelError & { readonly isFinal: boolean };
  constructor(code: ChannelFault, detail: string, { isFinal = false } = {}) {
    super(code);
    this.outcome = { code, detail, isFinal };
  }
}

interface Deadline {
  /** Calls `end` when the time is over, or at once where it is. Returns what takes that back. */
  onEnd(end: (fault: MailFault) => void): () => void;
  clear(): void;
}

function deadlineOf(timeoutMs: number, signal: AbortSignal): Deadline {
  const listeners = new Set<(fault: MailFault) => void>();
  let fault: MailFault | null = null;
  const end = (detail: string) => {
    fault ??= new MailFault('timeout', detail);
    for (const listener of listeners) listener(fault);
  };
  const timer = setTimeout(() => end(`no answer within ${timeoutMs} ms`), timeoutMs);
  const stop = () => end('this program stops');
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  return {
    onEnd: (listener) => {
      if (fault !== null) listener(fault);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    clear: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    },
  };
}

class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];
  constructor(count: number) {
    this.#free = count;
  }

  take(deadline: Deadline): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const begin = () => {
        forget();
        resolve();
      };
      this.#waiting.push(begin);
      const forget = deadline.onEnd((fault) => {
        const place = this.#waiting.indexOf(begin);
        if (place >= 0) this.#waiting.splice(place, 1);
        reject(fault);
      });
    });
  }

  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

function compose({ to, messageId, threadId, subject, text, html }: Mail, from: string): Promise<Buffer> {
  const idOf = (id: string) => `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`;
  return new MailComposer({
    from: { name: 'agent-trust', address: from },
    to: { name: '', address: to },
    subject,
    text,
    html,
    messageId: idOf(messageId),
    ...(threadId === null ? {} : { inReplyTo: idOf(threadId), references: [idOf(threadId)] }),
    // No program answers it, such as one that tells of a holiday (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  })
    .compile()
    .build();
}

interface Envelope {
  readonly from: string;
  readonly to: string;
  readonly message: Buffer;
}

/** Rejects with MailFault. */
function deliver(
  { server, ca }: Pick<MailerOptions, 'server'> & { readonly ca: string | undefined },
  mail: Envelope,
  deadline: Deadline,
): Promise<void> {
  const connection = new SMTPConnection({
    host: server.host,
    port: server.port,
    secure: server.tls === 'implicit',
    // Never TLS where it can be had and plain text where it cannot: who stands between decides that.
    requireTLS: server.tls === 'starttls',
    ignoreTLS: server.tls === 'none',
    // A server that does not close its side holds the socket no longer; its slot is free at once.
    socketCloseTimeout: secondMs,
    tls: { minVersion: 'TLSv1.2', ...(ca === undefined ? {} : { ca }) },
    logger: false,
  });
  return new Promise<void>((resolve, reject) => {
    let stage: Stage = 'connecting';
    const end = (fault: MailFault | null) => {
      if (fault === null) resolve();
      else reject(fault);
      // What closing it emits comes too late to change that.
      forget();
      connection.close();
    };
    const forget = deadline.onEnd((fault) => setImmediate(end, fault));
    connection.on('error', (error) => end(faultOf(error, stage)));
    connection.on('end', () =>
      end(new MailFault('closed', `the server closed the connection while ${stage}`)),
    );
    const send = () => {
      stage = 'sending';
      connection.send({ from: mail.from, to: [mail.to] }, mail.message, (error) => {
        if (error) return end(faultOf(error, stage));
        // The mail is accepted; whether the server takes leave of us does not matter.
        connection.quit();
        end(null);
      });
    };
    connection.connect((error) => {
      if (error) return end(faultOf(error, stage));
      if (server.user === null) return send();
      stage = 'logging in';
      const credentials = { user: server.user, pass: server.password ?? '' };
      connection.login({ credentials }, (failure) => (failure ? end(faultOf(failure, stage)) : send()));
    });
  });
}

type Stage = 'connecting' | 'logging in' | 'sending';
type SmtpError = Error & Partial<NodemailerError>;

function faultOf(error: SmtpError, stage: Stage): MailFault {
  const { code, command, responseCode, response, originalCode } = error;
  const said = response ?? originalCode ?? 'no answer';
  const detail = redactAnswer(Buffer.from(said), { isCut: false }).replace(/\s+/g, ' ');
  // RFC 5321 §4.2.1: 5yz is for good.
  const isFinal = responseCode !== undefined && responseCode >= 500 && responseCode < 600;
  if (code === 'ETIMEDOUT') return new MailFault('timeout', detail);
  if (code === 'EAUTH') return new MailFault('login_refused', detail);
  if (code === 'ETLS' && response !== undefined) return new MailFault('tls_missing', detail);
  if (code === 'ETLS' || isTlsFault(originalCode ?? '')) return new MailFault('tls_failed', detail);
  if (command === 'MAIL FROM') return new MailFault('sender_refused', detail, { isFinal });
  if (command === 'RCPT TO') return new MailFault('recipient_refused', detail, { isFinal });
  if (command === 'DATA') return new MailFault('message_refused', detail, { isFinal });
  if (stage === 'connecting' && (code === 'ESOCKET' || code === 'EDNS'))
    return new MailFault('unreachable', detail);
  return new MailFault('closed', `the server closed the connection while ${stage}`);
}
