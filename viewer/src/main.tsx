import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ComparePage } from "./pages/ComparePage";
import { FleetPage } from "./pages/FleetPage";
import { ProfilePage } from "./pages/ProfilePage";
import { ProfilesPage } from "./pages/ProfilesPage";
import { RanksPage } from "./pages/RanksPage";
import { SqlPage } from "./pages/SqlPage";
import { SummaryPage } from "./pages/SummaryPage";
import { readRoute } from "./state/route";
import "./ui/theme";

function Page() {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const follow = () => setRoute(readRoute(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  switch (route.page) {
    case "profile":
      return <ProfilePage link={route.link} />;
    case "summary":
      return <SummaryPage key={route.profile} name={route.profile} />;
    case "sql":
      return <SqlPage profile={route.profile} sql={route.sql} />;
    case "compare":
      return <ComparePage key={route.profiles.join("/")} names={route.profiles} base={route.base} />;
    case "ranks":
      return <RanksPage key={route.profile} name={route.profile} range={route.range} collective={route.collective} />;
    case "fleet":
      return <FleetPage question={route.question} />;
    case "profiles":
      return <ProfilesPage />;
  }
}

render(<Page />, document.getElementById("page")!);
