import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { AgentTrustError } from './api/client.ts';
import { noteOutcome } from './api/live.ts';
import { router } from './router.tsx';
import './ui/styles.css';

const client = new QueryClient({
  queryCache: new QueryCache({ onError: noteOutcome, onSuccess: () => noteOutcome(null) }),
  mutationCache: new MutationCache({ onError: noteOutcome, onSuccess: () => noteOutcome(null) }),
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What the service has refused it refuses again; what did not reach it may be sent again.
      retry: (failures, error) =>
        failures < 2 &&
        error instanceof AgentTrustError &&
        (error.http_status === null || error.http_status === 503),
    },
  },
});

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has an element #root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
