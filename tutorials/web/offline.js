// What a page of a lesson loaded stays with the browser: the second time is fast, and needs no
// network. Names in web/ have a version or a hash in them where they are large, so what is kept of
// them is never old; all else is asked of the server first.
const KEPT = "minitensor-lessons";
const FIXED = /\/web\/(pyodide-|clang-|wheels\/|minitensor-)/;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function asked(request, kept) {
  const answer = await fetch(request);
  if (answer.status >= 500) throw new Error(`the server answers ${answer.status}`);
  if (answer.ok) {
    try {
      await kept.put(request, answer.clone());
    } catch {
      // no room: the page works, it only loads again the next time
    }
  }
  return answer;
}

async function answered(request) {
  const kept = await caches.open(KEPT);
  const found = await kept.match(request, { ignoreSearch: true });
  if (found && FIXED.test(request.url)) return found;
  try {
    return await asked(request, kept);
  } catch (failure) {
    if (found) return found;
    throw failure;
  }
}

self.addEventListener("fetch", (event) => {
  const { url, method } = event.request;
  if (method === "GET" && url.startsWith(self.location.origin)) {
    event.respondWith(answered(event.request));
  }
});
