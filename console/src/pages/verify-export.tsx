import { Link } from '@tanstack/react-router';
import { type DragEvent, type ReactNode, useRef, useState } from 'react';
import {
  type AttestationsVerdict,
  verifyAttestations,
} from '../../../clients/node/src/verify/attestations.ts';
import { api } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Card, Facts, PageHead, Problem } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';

type State =
  | { readonly kind: 'empty' }
  | { readonly kind: 'working'; readonly name: string; readonly done: number }
  | {
      readonly kind: 'done';
      readonly name: string;
      readonly verdict: AttestationsVerdict;
      readonly bad: string | null;
    }
  | { readonly kind: 'failed'; readonly error: unknown };

/** Counts the bytes that the verifier has taken. */
function counted(file: File, report: (fraction: number) => void): ReadableStream<Uint8Array> {
  let bytes = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      report(file.size === 0 ? 1 : bytes / file.size);
      controller.enqueue(chunk);
    },
  });
  return file.stream().pipeThrough(counter);
}

/** The text of a line, from 1; at most so much of it as a person reads. */
async function lineOf(file: File, line: number): Promise<string | null> {
  const shownCharsMax = 4_000;
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let place = 1;
  let text = '';
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const parts = next.value.split('\n');
    for (const [index, part] of parts.entries()) {
      if (index > 0) {
        if (place === line) break;
        place += 1;
        text = '';
      }
      if (place === line) text = (text + part).slice(0, shownCharsMax);
    }
    if (place > line || (place === line && parts.length > 1 && text !== '')) break;
  }
  void reader.cancel();
  return text === '' ? null : text;
}

/** Verifies an export in the browser, without uploading the file. */
export default function VerifyPage(): ReactNode {
  const [state, setState] = useState<State>({ kind: 'empty' });
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);

  const verify = async (file: File) => {
    setState({ kind: 'working', name: file.name, done: 0 });
    try {
      const jwks = await api.signingKeys.jwks();
      const stream = counted(file, (done) => setState({ kind: 'working', name: file.name, done }));
      const verdict = await verifyAttestations(stream, jwks);
      const bad = verdict.valid ? null : await lineOf(file, verdict.line);
      setState({ kind: 'done', name: file.name, verdict, bad });
    } catch (error) {
      setState({ kind: 'failed', error });
    }
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const [file] = event.dataTransfer.files;
    if (file !== undefined) void verify(file);
  };
  return (
    <>
      <PageHead title="Verify an export">
        Checks every hash, link and signature of an export in this browser. The file is sent to nobody.
      </PageHead>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a target for files; the button does the same by keyboard */}
      <div
        className={`drop ${isOver ? 'over' : ''}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <p>Drop an export here, in the format jsonl or json.</p>
        <button type="button" className="button primary" onClick={() => input.current?.click()}>
          Choose a file
        </button>
        <input
          ref={input}
          type="file"
          className="sr-only"
          tabIndex={-1}
          aria-label="Export to verify"
          accept=".jsonl,.json,application/json"
          onChange={(event) => {
            const file = event.target.files?.[0];
            event.target.value = '';
            if (file !== undefined) void verify(file);
          }}
        />
        <p className="soft small">
          No export at hand? <Link to="/attestations">Attestations</Link> has one.
        </p>
      </div>
      <div aria-live="polite" className="stack">
        <Outcome state={state} />
      </div>
      <Card title="What this proves">
        <p>
          That no record of the export was changed, left out or put in after it was signed, and that this
          service signed each of them. The keys come from <a href="/.well-known/jwks.json">this service</a>:
          an auditor who does not trust it takes them from somewhere else and uses the command line,
          agent-trust attestations verify.
        </p>
      </Card>
    </>
  );
}

function Outcome({ state }: { readonly state: State }): ReactNode {
  if (state.kind === 'empty') return null;
  if (state.kind === 'failed') return <Problem error={state.error} />;
  if (state.kind === 'working') {
    return (
      <div className="notice">
        <strong>Verifying {state.name}</strong>
        <div className="progress" aria-hidden="true">
          <div style={{ width: `${Math.round(state.done * 100)}%` }} />
        </div>
      </div>
    );
  }
  const { name, verdict, bad } = state;
  if (verdict.valid) {
    return (
      <div className="notice good">
        <strong>Everything verifies: {name}</strong>
        <Facts
          items={[
            ['Records', count(verdict.records)],
            ['Chains', count(verdict.chains)],
            ['Made', <Time key="made" at={verdict.created_at} />],
            ['Since', <Time key="since" at={verdict.since} otherwise="the beginning" />],
            ...(verdict.compromised > 0
              ? [
                  [
                    'Doubtful',
                    `${count(verdict.compromised)} records are signed by a key that somebody else may have had`,
                  ] as const,
                ]
              : []),
            ...(verdict.compromised_statements > 0
              ? [
                  [
                    'May be forged',
                    `${count(verdict.compromised_statements)} passports or approvals are signed by such a key`,
                  ] as const,
                ]
              : []),
            ...(verdict.removed_approvals > 0
              ? [
                  [
                    'Approvals that were removed',
                    `${count(verdict.removed_approvals)}: nothing shows who answered them`,
                  ] as const,
                ]
              : []),
          ]}
        />
      </div>
    );
  }
  return (
    <div className="notice bad" role="alert">
      <strong>This export does not verify: {name}</strong>
      <Facts
        items={[
          ['What is wrong', verdict.fault],
          ['First bad line', String(verdict.line)],
          ['Chain', <code key="chain">{verdict.chain_id ?? 'none'}</code>],
          ['Record', verdict.sequence === null ? 'none' : `No. ${verdict.sequence} of the chain`],
        ]}
      />
      {bad === null ? null : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre tabIndex={0}>{bad}</pre>
      )}
    </div>
  );
}
