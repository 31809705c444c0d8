#include "longbow/arena/placement.h"

#include <gtest/gtest.h>

namespace longbow::arena {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "arena.yaml");
}

Placement in_translation(const std::string& attention) {
  return placed(yaml(attention),
                yaml("{encoder: {width: 16}, decoder: {cross_attention: {name: abc}}}"),
                "translation");
}

using Sites = std::vector<std::string>;

TEST(Placement, AMechanismGoesWhereItKeepsWhatThePlaceNeeds) {
  EXPECT_EQ(in_translation("{name: linear}").sites, (Sites{"encoder", "decoder", "cross"}));
  EXPECT_EQ(in_translation("{name: local, window: 4}").sites, (Sites{"encoder", "decoder"}));
  EXPECT_EQ(in_translation("{name: fnet}").sites, (Sites{"encoder"}));
  EXPECT_EQ(in_translation("{name: nystromformer}").sites, (Sites{"encoder"}))
      << "it reads a memory, but does not decode from one";
}

TEST(Placement, TheOtherPlacesStayAsTheyAre) {
  const auto model = in_translation("{name: local, window: 4}").model;
  EXPECT_EQ(to_yaml(*model.find("encoder")),
            to_yaml(yaml("{width: 16, attention: {name: local, window: 4}}")));
  EXPECT_EQ(to_yaml(*model.find("decoder")),
            to_yaml(yaml("{cross_attention: {name: abc}, attention: {name: local, window: 4}}")));
}

TEST(Placement, KeysBesideThePartsAreThoseOfBoth) {
  const auto placement =
      placed(yaml("{name: linear}"), yaml("{width: 32, decoder: {width: 16}}"), "translation");
  EXPECT_EQ(to_yaml(*placement.model.find("encoder")),
            to_yaml(yaml("{width: 32, attention: {name: linear}}")));
  EXPECT_EQ(placement.model.find("decoder")->find("width")->text, "16");
  EXPECT_EQ(placement.model.find("width"), nullptr);
}

TEST(Placement, OtherModelsHaveOnePlaceOrSayWhichItIs) {
  const auto sites = [&](const char* objective, const char* text = "{width: 16}") {
    const auto placement = placed(yaml("{name: fnet}"), yaml(text), objective);
    EXPECT_EQ(to_yaml(*placement.model.find("attention")), to_yaml(yaml("{name: fnet}")));
    return placement.sites;
  };
  EXPECT_EQ(sites("classification"), Sites{});
  EXPECT_EQ(sites("characters"), Sites{"deep"});
  EXPECT_EQ(sites("perceiver"), Sites{"latents"});
  EXPECT_EQ(sites("replaced_tokens"), (Sites{"generator", "detector"}));
  EXPECT_EQ(sites("replaced_tokens", "{generator: {attention: linear}}"), Sites{"detector"});
}

TEST(Placement, WrongOptionsAreTheUsersWhateverTheObjective) {
  for (const auto* objective : {"classification", "translation"}) {
    try {
      placed(yaml("{name: local, widnow: 4}"), yaml("{}"), objective);
      FAIL() << objective;
    } catch (const UserError& error) {
      EXPECT_STREQ(error.what(), "arena.yaml:1: unknown key 'widnow'; did you mean 'window'?");
    }
  }
}

}  // namespace
}  // namespace longbow::arena
